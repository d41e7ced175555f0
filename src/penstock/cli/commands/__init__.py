"""Commands on tables and rows, and on what reads them: scanners, leases, owners, snapshots."""
