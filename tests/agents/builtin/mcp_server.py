"""A small MCP server, for the agent to be handed."""

import os

from mcp.server.fastmcp import FastMCP

server = FastMCP("tests")


@server.tool()
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper() + os.environ.get("SUFFIX", "")


if __name__ == "__main__":
    server.run()
