"""Filters: parsed, bound to a schema, and turned into expressions, with SQL's three-valued logic.

A filter keeps the rows for which it is true, neither false nor null. Imports `model.schema`, `model.words` and errors.
"""
