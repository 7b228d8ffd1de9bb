"""Commands for other programs: the agents that come with Holdfast, and the MCP server."""
