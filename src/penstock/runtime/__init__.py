"""All that is not pure: disk, clock, supervised tasks, metrics. Everything above takes these as arguments."""
