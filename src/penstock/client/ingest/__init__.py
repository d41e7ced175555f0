"""Rows as callers have them, turned into Arrow batches of the table's columns. Lossy casts are refused.

Whatever comes out was checked value by value: nothing checks it again in this process. Imports model and errors.
"""
