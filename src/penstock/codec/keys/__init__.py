"""Keys as order-preserving bytes, their hash, and the bucket that they belong to. Vectorised."""
