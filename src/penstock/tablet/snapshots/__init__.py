"""Numbered snapshots of a bucket, and reading one straight from its files, without a leader or an index."""
