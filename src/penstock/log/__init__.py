"""The columnar change log: segments as they are appended, data files as they are sealed. Knows no keys."""
