"""The other end of a URL, found out before a command connects.

Nothing is written while finding out. Imports model and errors.
"""
