"""Change streams of a table: where they start and end, and the snapshot that may come first."""
