"""Streaming storage with real-time primary-key tables, for Python and Spark."""
