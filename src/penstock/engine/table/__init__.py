"""Tables that are open on this node: their buckets, their names, and the pins that keep what is read.

What a pin or a lease protects is never removed, also after a drop. Imports `engine.commit`, `engine.catalog` and
`engine.home`.
"""
