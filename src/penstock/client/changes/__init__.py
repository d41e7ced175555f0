"""Change streams of a table: where they start and end, and the snapshot that may come first.

A stream gives every change of its range once, in the order of each bucket, and its position goes on exactly there.
Imports `client.scan`, `client.pages`, `client.cut` and `client.link`, model and errors.
"""
