"""Tables and partitions as plain values: spec, properties, merge engine.

A value that exists is valid: it was checked when it was made. Imports `model.schema`, `model.words` and errors.
"""
