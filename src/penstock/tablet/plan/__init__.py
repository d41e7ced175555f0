"""The write plan: changes, ends and index entries of a batch, a pure function of the old rows and the batch."""
