"""Columns, their types and aggregate functions, and the DDL that says them."""
