"""Rows that were read from files into a table: what a missing column means, what is left out, how far it is."""
