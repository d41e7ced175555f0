"""A node at the other end of a connection: Arrow Flight streams, requests and their answers.

A call is made once; what is tried again is decided above. Imports wire and `client.link`.
"""
