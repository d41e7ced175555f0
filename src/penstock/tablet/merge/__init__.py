"""Merge rules: from old rows and incoming rows of the same keys to new rows. Pure and vectorised.

`factory` alone knows which merge engine has which rule. Imports model and codec.
"""
