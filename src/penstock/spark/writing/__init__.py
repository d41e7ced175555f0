"""Writes from tasks under an owner's epoch: batch jobs, micro-batches, attempts. Exactly once."""
