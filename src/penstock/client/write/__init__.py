"""Writes: requests made of rows, the pipelined writer, and the calls of a table about its owners.

A write that is sent again has the same writer and sequence, so it is applied once. Imports `client.hold`,
`client.ingest`, `client.catalog` and `client.link`, model and errors.
"""
