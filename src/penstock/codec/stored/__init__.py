"""Stored records as bytes: batch headers, manifests, ends, leases.

Each has a version and a checksum, and every version that was ever written can be read. Imports model and errors.
"""
