"""Output for people and programs: tables, colours, exit codes, progress, options that commands share.

Data goes to stdout, words to stderr; control characters of stored values are shown and not obeyed. Imports model and
errors.
"""
