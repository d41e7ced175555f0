"""The node, as everything that users see is built on it, and the values of its calls.

An engine is a node, a connection to a server another; both behave the same. Imports the rest of the model, and errors.
"""
