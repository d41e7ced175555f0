"""Lookups by key and by key prefix.

An answer is of one view of the table, and has a row for each key in the order asked. Imports `engine.table` and below.
"""
