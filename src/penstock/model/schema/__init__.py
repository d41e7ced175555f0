"""Columns, their types and aggregate functions, and the DDL that says them.

A column keeps its id for ever, whatever its name becomes. Imports `model.words`, `model.place` and errors.
"""
