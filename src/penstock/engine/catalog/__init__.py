"""The catalog: databases, tables, partitions, the terms of leaders, and the identity of the database.

A record is durable before anyone sees it, and ids are never used again. Imports `engine.metadata` only.
"""
