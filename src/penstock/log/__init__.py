"""The columnar change log: segments as they are appended, data files as they are sealed.

Offsets are dense and never change; a tail torn by a crash is cut, other damage is an error. Knows no keys. Imports
codec, runtime, model and errors.
"""
