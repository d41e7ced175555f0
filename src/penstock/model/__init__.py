"""The nouns and the limits: schemas, tables, places in them, filters, and what a node offers.

Pure values: no files, no clock, no threads. Imports errors only.
"""
