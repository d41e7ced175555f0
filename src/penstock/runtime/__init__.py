"""All that is not pure: disk, clock, supervised tasks, metrics.

Everything above takes these as arguments, so that tests pass in their own. Imports errors.
"""
