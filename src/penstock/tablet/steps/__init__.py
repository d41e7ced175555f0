"""Steps in the life of an open bucket: recovery, sealing, checkpoint, compaction, snapshot, copy.

Each may be cut off anywhere by a crash; what is stored before and after it is valid. Imports `tablet.tablet`.
"""
