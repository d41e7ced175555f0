"""Owners: column locks, epochs, attempts, staging and undo, which make a job's writes exactly once.

What is uncommitted can always be taken back; a fenced owner changes nothing. Owner state is read and changed on the
committer only. Imports `engine.table` and below.
"""
