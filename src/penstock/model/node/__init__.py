"""What a node offers, and the values of its calls. An engine is one, a connection to a server another."""
