"""Scans of a table: what is asked for, the pass over its buckets, the token that goes on with it.

A scan reads at one cut, whatever is written or restarted meanwhile. Imports `client.pages`, `client.hold`,
`client.cut`, `client.catalog` and `client.link`, runtime, model and errors.
"""
