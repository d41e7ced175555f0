"""The facets of a server's node: each call is one request, described by the table in `penstock.wire.calls`.

No facet decides or tries again; that is done above. Imports `client.remote`, wire, model and errors.
"""
