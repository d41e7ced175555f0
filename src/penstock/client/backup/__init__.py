"""Backups on the side of the client that keeps the copy: files are fetched from a node and put into a directory.

The inventory is replaced last, in one step, so the directory always holds one whole backup. Imports `client.link`.
"""
