"""Places in a table: buckets, changes, offsets, cuts."""
