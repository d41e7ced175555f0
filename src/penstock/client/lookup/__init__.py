"""Lookups by key; small ones of several threads travel together.

An answer has a row for each key asked, in that order. Imports `client.scan`, `client.write`, `client.ingest`,
`client.catalog` and `client.link`, model and errors.
"""
