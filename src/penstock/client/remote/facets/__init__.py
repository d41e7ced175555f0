"""The facets of a server's node: each call is one request, described by the table in `penstock.wire.calls`."""
