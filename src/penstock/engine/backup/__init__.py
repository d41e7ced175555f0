"""Backup and restore of a whole node.

A backup is begun, not written, here: its files stay as they are while the client copies them. Restoring makes a data
directory of a copy. Imports `engine.leases`, `engine.table`, `engine.catalog`, `engine.metadata` and below.
"""
