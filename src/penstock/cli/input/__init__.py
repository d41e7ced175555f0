"""Rows from files and standard input: CSV, JSON, Arrow, Parquet, with the line that is wrong.

A row that cannot be read is an error with its line, never left out. Imports `cli.terminal`, the client's ingest, and
below.
"""
