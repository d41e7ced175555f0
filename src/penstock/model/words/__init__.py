"""Text: names, durations and sizes, tokens of a small grammar, a near name for a misspelt one."""
