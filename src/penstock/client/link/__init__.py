"""The link of a connection: the node that is asked, retries, ids of requests and writers, names of buckets.

A call that must not be done twice is sent again under the same id. A forked child uses nothing of its parent's. Imports
model and errors.
"""
