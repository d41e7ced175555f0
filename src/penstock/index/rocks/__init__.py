"""The key index in RocksDB; `index.py` is the only file that imports `rocksdict`."""
