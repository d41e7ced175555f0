"""Rows of a page: how many fit, and which error a reader gets when stored bytes cannot be read.

A page has at least one row. Pure. Imports model and errors.
"""
