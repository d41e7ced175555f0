"""The nouns and the limits. Pure values; imports nothing above `errors`."""
