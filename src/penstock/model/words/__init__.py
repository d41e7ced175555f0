"""Text: names, durations and sizes, tokens of a small grammar, a near name for a misspelt one.

What is not understood is an error that says what would be. Imports `model.place` and errors.
"""
