"""Undo: which columns of which keys return to what, and the requests that write it.

An undo is ordinary changes in the log, and doing it again changes nothing. Pure, apart from reading rows. Imports
`tablet.tablet`, `tablet.merge`, `tablet.view`, log and model.
"""
