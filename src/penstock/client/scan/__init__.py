"""Scans of a table: what is asked for, the pass over its buckets, the token that goes on with it."""
