"""A client of MCP servers over HTTP: the protocol's SDK, loaded only by scripts that use one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio import BrokenResourceError, ClosedResourceError
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CONNECTION_CLOSED

from holdfast.agents.playbook.mcp_client import McpCallResult, McpServerExited


class HttpMcpClient:
    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def list_tools(self) -> list[str]:
        return sorted(tool.name for tool in (await self._session.list_tools()).tools)

    async def call_tool(self, tool: str, arguments: dict[str, Any]) -> McpCallResult:
        try:
            answer = await self._session.call_tool(tool, arguments)
        except McpError as error:
            if error.error.code != CONNECTION_CLOSED:
                return McpCallResult(str(error), True)
            raise McpServerExited(str(error)) from None
        except (BrokenResourceError, ClosedResourceError):
            raise McpServerExited("the MCP server is gone") from None
        parts = [str(getattr(part, "text", part.type)) for part in answer.content]
        return McpCallResult("\n".join(parts), answer.isError)


@asynccontextmanager
async def open_http_client(config: dict[str, Any]) -> AsyncIterator[HttpMcpClient]:
    headers = {header["name"]: header["value"] for header in config.get("headers", [])}
    async with (
        streamablehttp_client(config["url"], headers=headers) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield HttpMcpClient(session)
