"""What every part of the client has in common: the node that it asks, retries, ids, names of buckets."""
