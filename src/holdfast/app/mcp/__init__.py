"""The MCP server with which each agent reports."""
