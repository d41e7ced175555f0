"""Who is measured: Penstock itself, the systems people would use instead, and the raw bounds below us.

One file each. A peer is started and stopped by the harness in the same run, in a directory of its own, on a free port
of loopback; what a session of it can do decides in which jobs it takes part. See `peer.py` for the protocol.
"""
