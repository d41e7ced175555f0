"""Work in the background: sealing, checkpoints, compaction, retention; and the figures of a table.

Nothing that a pin protects is removed. A failure here is reported, and fails no caller. Imports `engine.table` and
below.
"""
