"""The functions of `penstock.spark`: read, changes, write, streams, joins, views.

What cannot work is refused when the function is called, not in a task. Imports `spark.sources`, `spark.writing`,
`spark.reading` and `spark.session`, the client, model and errors.
"""
