"""Primary key to the offset of its live row.

Derived state: lost, stale or damaged, it is rebuilt from the log. `index.rocks` alone knows RocksDB. Imports codec,
runtime, model and errors.
"""
