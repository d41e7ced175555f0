"""Rows that were read from files into a table: what a missing column means, what is left out, how far it is.

What was acknowledged is counted, and told also when the rest fails. Imports `cli.input`, the client, and below.
"""
