"""A whole node, no network: catalog, committers, scan sessions, background work.

A write is acknowledged when it is durable and visible, and what is read is one cut. Imports tablet, index, log, codec,
runtime, model and errors; knows neither clients nor the wire.
"""
