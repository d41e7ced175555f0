"""The readable state of a bucket: files, ends, the visible offset, pins. A view is immutable.

Row r is visible at X if `r < X <= end[r]`. Imports log, codec and model; knows neither plans nor files on disk.
"""
