"""Commands that make and remove what rows stand in, or rows by the many: databases, partitions, tokens, deletions."""
