"""MCP, and MCP over xDS: configuration from servers, as their client and as their server."""
