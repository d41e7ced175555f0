"""Bytes, pure: key encoding, routing hash, batch headers, manifests. No I/O, no clock."""
