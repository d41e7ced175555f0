"""A node over a directory that another process may hold: what is durable when it is opened, and no change of it.

No lock is taken and no byte is written; nothing protects the files, either. What was replaced or removed since is an
error that says so, never another row. Imports `engine.leases`, `engine.scan`, `engine.changes`, `engine.lookup`,
`engine.upkeep`, `engine.table` and below.
"""
