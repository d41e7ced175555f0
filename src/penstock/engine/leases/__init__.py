"""Snapshots and leases: what a lease names stays readable until the lease ends, and is freed then.

Taking: pin, durable record, reply. Giving back: record, then unpin. Imports `engine.upkeep`, `engine.table` and below.
"""
