"""State of a bucket that outlives its base: last sequences of writers, applied epochs of owners.

It is part of each checkpoint, and brought up to date from the log after it. Imports `tablet.view`, `tablet.schema`,
log, codec, model and errors.
"""
