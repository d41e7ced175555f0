"""Access to a server: tokens, certificates, and paths that only some callers are told.

A caller without a valid token or certificate is refused before its call is read. Imports wire, runtime, model and
errors.
"""
