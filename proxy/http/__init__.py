"""The client side: listeners, connections of either HTTP, the connection manager's header rules, the access log."""
