"""Backup and restore of a whole node. Imports `engine.leases`, `engine.scan` and below."""
