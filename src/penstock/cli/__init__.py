"""The command line: `penstock ...`.

It stands on what users have: connections, tables, scans, streams, writers. Data goes to stdout, words
and progress to stderr, and the exit code says what kind of failure it was. A command's module is
loaded when the command is used, so that `penstock --help` stays quick. Imports the client and everything below it; the
server, the engine and `spark` where a command runs one.
"""
