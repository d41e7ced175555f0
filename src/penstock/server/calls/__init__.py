"""Calls of a server, from a Flight message to a call of the node and back: admission, limits, kept results.

Every call passes `server.calls.dispatch`; what a client can make a server hold is counted before it is held. Imports
`server.access` and `server.settings`, wire, runtime, model and errors.
"""
