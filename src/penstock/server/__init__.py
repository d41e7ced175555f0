"""The server's end of the wire: a node behind Arrow Flight, and its health over HTTP.

Handlers decode, check, cap, dispatch to the node and map errors; meaning lives below. A client that
is slow, stalled, hostile or gone costs a bounded amount: streams, calls, waits and bytes are counted,
and a connection that does not take what it asked for is cut.

Imports `wire` and `engine`, and everything below them.
"""
