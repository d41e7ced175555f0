"""Cuts and positions: offsets of all buckets of a table, as users keep them and give them back.

A cut of another database or table is refused, never read as one of this. Imports `client.link`, model and errors.
"""
