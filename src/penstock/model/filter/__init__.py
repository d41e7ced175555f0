"""Filters: parsed, bound to a schema, and turned into expressions, with SQL's three-valued logic."""
