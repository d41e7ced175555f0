"""The streaming source: the snapshot at X, then the log from exactly X, with offsets as readable JSON."""
