"""Numbered snapshots of a bucket, and reading one straight from its files, without a leader or an index.

A snapshot's files are immutable and named by its manifest. Imports `tablet.files`, `tablet.view`, log, codec, runtime,
model and errors.
"""
