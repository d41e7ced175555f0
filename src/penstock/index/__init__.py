"""Primary key to the offset of its live row. Derived state: lost, stale or damaged, it is rebuilt."""
