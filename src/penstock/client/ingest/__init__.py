"""Rows as callers have them, turned into Arrow batches of the table's columns. Lossy casts are refused."""
