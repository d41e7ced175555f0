"""Commands on tables and rows, and on what reads them: scanners, leases, owners, snapshots.

A command says what a user may type and calls one method of the client; it decides nothing of its own. Imports
`cli.write`, `cli.input`, `cli.link` and `cli.terminal`, the client, and below.
"""
