"""Rows from files and standard input: CSV, JSON, Arrow, Parquet, with the line that is wrong."""
