"""The root of the command line: its list of commands, the options that all of them take, help, completion.

A command's module is imported when it is called, so that help is quick. Imports `cli.commands`, `cli.terminal`, the
client, and below.
"""
