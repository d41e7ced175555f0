"""The catalog as a client says it: the definition of a table, its partitions, its figures.

What a user gives is checked here, before a call is made. Imports `client.ingest` and `client.link`, model and errors.
"""
