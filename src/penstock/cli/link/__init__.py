"""What stands at the other end of a URL, found out before a command connects."""
