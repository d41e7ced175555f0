"""Leases as users hold them, and tables as a lease holds them.

What a lease could not get is named in its `unavailable`. Stands above `client.table`. Imports it, the sub-rooms below
it, model and errors.
"""
