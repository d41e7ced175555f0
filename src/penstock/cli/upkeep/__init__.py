"""Commands that make and remove what rows stand in, or rows by the many: databases, partitions, tokens, deletions.

What removes rows says how many, and asks first on a terminal. Imports `cli.commands` and `cli.terminal`, the client,
the server's tokens, and below.
"""
