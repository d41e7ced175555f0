"""Writes: requests made of rows, the pipelined writer, and the calls of a table about its owners."""
