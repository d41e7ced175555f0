"""The index front: recent entries of buckets in hash tables in memory, drained to the index below.

What it has is newer than what is below it. Imports `index.key_index`, codec, model and errors.
"""
