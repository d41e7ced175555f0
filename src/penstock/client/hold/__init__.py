"""What a client holds at the node and renews in the background: owners, and leases by their handle."""
