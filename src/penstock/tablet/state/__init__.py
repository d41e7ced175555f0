"""State of a bucket that outlives its base: last sequences of writers, applied epochs of owners."""
