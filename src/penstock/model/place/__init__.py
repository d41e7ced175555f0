"""Places in a table: buckets, changes, offsets, cuts, and the columns that say them.

Ranges are half-open; a bucket of a partition that was dropped and made again is another bucket. Imports errors.
"""
