"""The user's end: connections, tables, scans, change streams, writers."""
