"""A tiny MCP server, over stdio: adds, fails, tells its environment and its process."""

import os

from mcp.server.fastmcp import FastMCP

server = FastMCP("tiny")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def fail(why: str) -> str:
    raise ValueError(why)


@server.tool()
def environment(name: str) -> str:
    return os.environ.get(name, "")


@server.tool()
def pid() -> int:
    return os.getpid()


if __name__ == "__main__":
    server.run()
