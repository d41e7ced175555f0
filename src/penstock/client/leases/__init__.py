"""Leases as users hold them, and tables as a lease holds them. Stands above `client.table`."""
