"""Lookups by key and by key prefix, answered from one view of the table. Imports `engine.table` and below."""
