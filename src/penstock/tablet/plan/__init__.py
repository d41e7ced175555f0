"""The write plan: changes, ends and index entries of a batch, a pure function of the old rows and the batch.

Nothing is changed by planning, so a plan may be dropped. Imports `tablet.merge`, `tablet.view`, `tablet.schema`, log,
model and errors.
"""
