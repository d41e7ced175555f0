"""The data source that Spark finds by its name, `penstock`, and its registration.

Imports `spark.reading`, `spark.streaming`, `spark.writing` and `spark.session`, the client, model and errors; what a
task does not need it imports late.
"""
