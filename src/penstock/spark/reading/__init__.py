"""Batch reads: one cut for an execution, splits over buckets, readers that run in tasks.

All tasks of an execution read at the same cut, also those that run again. Imports `spark.session`, the client, the
reader of stored snapshots in tablet, model and errors.
"""
