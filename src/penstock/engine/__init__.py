"""A whole node, no network: catalog, committers, scan sessions, background work."""
