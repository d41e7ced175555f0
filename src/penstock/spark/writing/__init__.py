"""Writes from tasks under an owner's epoch: batch jobs, micro-batches, attempts.

An epoch counts exactly once or not at all, whichever of its processes die. Imports `spark.session`, the client, model
and errors.
"""
