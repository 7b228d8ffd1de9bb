"""Commands that other programs start: the agents that come with Holdfast, and the MCP server."""
