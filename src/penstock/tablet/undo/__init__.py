"""Undo: which columns of which keys return to what, and the requests that write it. Pure, apart from reading rows."""
