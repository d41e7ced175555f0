"""The user's end: connections, tables, scans, change streams, writers.

Written once over `penstock.model.node.node.Node`, so that an embedded engine and a server behave the
same. The engine is loaded only when a directory is opened, the remote node only when a server is:
a Spark executor imports this room without RocksDB. Imports wire, runtime, model and errors; the engine late.
"""
