"""Bytes, pure: key encoding, routing hash, batch headers, manifests.

The same values give the same bytes for ever, and bytes that are wrong are an error. No I/O, no clock. Imports model and
errors.
"""
