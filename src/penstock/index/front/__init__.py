"""The index front: recent entries of buckets in hash tables in memory, drained to the index below."""
