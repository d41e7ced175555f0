"""The committer of a table: it alone orders writes, cuts, owner calls, schema changes and file swaps.

A group is planned whole before any bucket is touched, then appended, synced, and published as one immutable view.
Imports `engine.catalog` (terms) and the tablets; knows neither tables by name nor owners, whom it asks by a hook.
"""
