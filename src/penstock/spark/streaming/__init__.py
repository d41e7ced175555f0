"""The streaming source: the snapshot at X, then the log from exactly X, with offsets as readable JSON.

A micro-batch that is run again reads the same rows. Imports `spark.reading` and `spark.session`, the client, model and
errors.
"""
