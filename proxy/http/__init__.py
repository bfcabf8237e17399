"""The client side: listeners, HTTP/1.1 connections, the connection manager's header rules, the access log."""
