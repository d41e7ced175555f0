"""The data source that Spark finds by its name, `penstock`, and its registration."""
