"""Owners, and leases by their handle: what a client holds at the node and renews in the background.

A renewal that fails for good is logged and kept as the handle's failure; a forgotten handle is renewed no more.
Imports `client.link`, model and errors.
"""
