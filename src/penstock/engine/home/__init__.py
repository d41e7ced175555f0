"""The home of a node: the directory that it holds, its disk, its share of memory and of disk space.

The directory is locked while the node is open. Imports `engine.metadata` and `engine.settings`; knows no tables.
"""
