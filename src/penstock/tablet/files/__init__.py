"""Files of a bucket on disk: manifest, segments, data files, and what is found of them at opening.

A file is synced before a manifest names it. Imports `tablet.view` and the log.
"""
