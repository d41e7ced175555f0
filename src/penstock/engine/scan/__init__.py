"""Scans of the live table: sessions, their pages and resume tokens, and the cuts that they read at.

A page holds rows of exactly one offset X; the latest call may be repeated. Imports `engine.table` and below.
"""
