"""Commands on a server or a directory as a whole: serve, top, doctor, backup, restore, bench.

A command that opens a directory holds its lock, and leaves it in order. Imports `cli.commands` and `cli.terminal`, the
client, the server and the engine, and below.
"""
