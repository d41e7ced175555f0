"""Batch reads: one cut for an execution, splits over buckets, readers that run in tasks."""
