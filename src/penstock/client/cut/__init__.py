"""Cuts and positions: offsets of all buckets of a table, as users keep them and give them back."""
