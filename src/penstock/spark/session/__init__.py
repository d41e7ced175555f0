"""What every part of the connector shares: options, types, links to servers, Java, the id of a query."""
