"""Stored records as bytes: batch headers, manifests, ends, leases. Each has a version and a checksum."""
