"""The MCP server that each agent is handed: its way to report."""
