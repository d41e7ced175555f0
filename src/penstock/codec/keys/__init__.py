"""Keys as order-preserving bytes, their hash, and the bucket that they belong to. Vectorised.

Bytes compare as the keys do; the hash is Spark's. Imports errors.
"""
