"""What is said on the wire: pure descriptions, no sockets.

Client and server speak in frames over one kind of Arrow Flight stream. A frame is a small JSON
header and the Arrow batches that belong to it; nothing in it is ever executed. Invariants:

- every frame carries the protocol version, and a newer one is refused by name;
- whatever came from the other end is checked in full before anything reads it;
- every error of `penstock.errors` crosses the wire as itself, through one table.

Imports `model` and `errors` only.
"""
