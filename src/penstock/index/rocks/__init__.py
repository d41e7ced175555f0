"""The key index in RocksDB: one database for all buckets of a node.

What it lost in a crash is made again from the log. `index.py` is the only file that imports `rocksdict`.
"""
