"""The session's part of every source and sink: options, types, links to servers, Java, the id of a query.

A process has one link to a server for all of its tasks. Imports the client, model and errors.
"""
