"""The eight facets of a node, one a noun, with the same names as the sub-rooms of engine and client.

Each is a Protocol with one conformance suite, which an embedded engine and a server pass alike. Every call raises
only errors of `penstock.errors`. Imports the model's other sub-rooms.
"""
