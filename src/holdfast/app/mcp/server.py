"""A stdio MCP server with the tools of one role. A call is answered when what it reports is on the disk."""

import asyncio
import os
from typing import Any

from anyio import wrap_file
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from holdfast import __version__
from holdfast.engine.agents.tool_listing import tell_listed
from holdfast.engine.inbox.report import Reporter, report, tools_for
from holdfast.leaf.errors import HoldfastError
from holdfast.leaf.failpoints import around

_CRASH = around("mcp.call")
_ARRIVAL_S = 0.2  # from our answer until the agent has taken it in


def server_for(who: Reporter, listed: str | None = None) -> Server[Any, Any]:
    """`listed` is the file in which is told that the agent asked for the list of tools, and got it."""
    server: Server[Any, Any] = Server("holdfast", version=__version__)

    @server.list_tools()  # type: ignore[no-untyped-call, untyped-decorator]
    async def tools() -> list[types.Tool]:
        if listed is not None:
            asyncio.get_running_loop().call_later(_ARRIVAL_S, tell_listed, listed)
        return [
            types.Tool(name=tool.name, description=tool.about, inputSchema=tool.schema) for tool in tools_for(who.role)
        ]

    @server.call_tool(validate_input=False)  # type: ignore[untyped-decorator]  # ours says in words what is wrong
    async def call(name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        try:
            _CRASH.before()
            answer = _answer(await report(who, name, arguments))
        except HoldfastError as error:
            answer = _answer(str(error), failed=True)
        _CRASH.after()
        return answer

    return server


async def serve(who: Reporter, listed: str | None = None) -> None:
    server = server_for(who, listed)
    with (  # it closes them; what is no UTF-8 is no call either, and the next one may be
        open(os.dup(0), encoding="utf-8", errors="replace") as stdin,
        open(os.dup(1), "w", encoding="utf-8") as stdout,
    ):
        async with stdio_server(wrap_file(stdin), wrap_file(stdout)) as (read, write):
            await server.run(read, write, server.create_initialization_options())


def _answer(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], isError=failed)
