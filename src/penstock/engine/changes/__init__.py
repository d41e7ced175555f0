"""The change log as readers see it: pages of changes from an offset on, with before-images, and their pins.

Every change in [start, end) is handed out once, in order. Imports `engine.table` and below.
"""
