"""What a client says of the catalog: the definition of a table, its partitions, its figures."""
