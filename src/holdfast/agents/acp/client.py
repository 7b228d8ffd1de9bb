"""Our side of the protocol: what an agent may ask of us, inside its worktree and with the host's consent."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from acp import RequestError
from acp.schema import (
    AllowedOutcome,
    CreateTerminalResponse,
    DeniedOutcome,
    EnvVariable,
    KillTerminalResponse,
    PermissionOption,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    RequestPermissionResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    ToolCallUpdate,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
)

from holdfast.agents.acp.file_access import read_text, write_text
from holdfast.agents.process.terminals import Terminal, Terminals
from holdfast.agents.process.tree import seen_through
from holdfast.core.conversation.tool_call import ToolCall, read_tool_call
from holdfast.leaf.errors import HoldfastError

Begun = Callable[[dict[str, Any]], Awaitable[None]]
Told = Callable[[str], Mapping[str, Any]]
P = ParamSpec("P")
T = TypeVar("T")


def _answering(ask: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """What is wrong on our side is an answer too; the library would print it."""

    @wraps(ask)
    async def answered(*given: P.args, **named: P.kwargs) -> T:
        try:
            return await ask(*given, **named)
        except HoldfastError as error:
            raise RequestError.internal_error({"details": str(error)}) from None

    return answered


class Asked(NamedTuple):
    """An agent asks before it does something."""

    call: ToolCall
    options: tuple[tuple[str, str, str], ...]  # id, name, kind


class Host(Protocol):
    """Who decides for the agent."""

    async def permit(self, asked: Asked) -> str | None:
        """The id of the chosen option; None when nobody chose."""
        ...

    async def veto(self, call: ToolCall) -> str | None:
        """Why a tool call is blocked; None when it may go on."""
        ...


class ClientSide:
    """Our side of the protocol: what an agent may ask of us."""

    def __init__(self, cwd: str, host: Host, terminals: Terminals, begun: Begun, told: Told) -> None:
        """`begun` writes down a call that was allowed, before the agent is told so.

        `told` gives what the agent told of a call before it asked.
        """
        self._begun = begun
        self._told = told
        self._cwd = cwd
        self._host = host
        self._terminals = terminals
        self._files = asyncio.Lock()  # one after the other, as they were asked for

    @_answering
    async def request_permission(
        self, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        told = tool_call.model_dump(by_alias=True, exclude_none=True, mode="json")
        asked = Asked(
            call=read_tool_call(told, self._told(tool_call.tool_call_id)),
            options=tuple((option.option_id, option.name, str(option.kind)) for option in options),
        )
        chosen = await self._host.permit(asked)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        if any(kind.startswith("allow") for option, _, kind in asked.options if option == chosen):
            await self._begun(told)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def session_update(self, **_: Any) -> None:
        """Never called: updates are taken off before they come here."""

    @_answering
    async def read_text_file(
        self, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        await self._must_be_allowed("read_text_file", "read", {"path": path})
        async with self._files:
            with _translated():
                content = await asyncio.to_thread(read_text, self._cwd, path, line, limit)
        return ReadTextFileResponse(content=content)

    @_answering
    async def write_text_file(self, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        await self._must_be_allowed("write_text_file", "edit", {"path": path, "content": content})
        async with self._files:
            with _translated():  # a write that outlived its agent would fall upon the next one's work
                await seen_through(asyncio.to_thread(write_text, self._cwd, path, content))
        return WriteTextFileResponse()

    @_answering
    async def create_terminal(
        self,
        command: str,
        args: list[str] | None = None,
        env: list[EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> CreateTerminalResponse:
        words = {"command": command, "args": args or [], "cwd": cwd}
        await self._must_be_allowed(" ".join((command, *(args or ()))), "execute", words)
        given: Mapping[str, str] = {variable.name: variable.value for variable in env or ()}
        try:
            name = await self._terminals.create(command, args or [], cwd, given, output_byte_limit)
        except HoldfastError as error:
            raise RequestError.invalid_params({"details": str(error)}) from None
        return CreateTerminalResponse(terminal_id=name)

    async def terminal_output(self, terminal_id: str, **_: Any) -> TerminalOutputResponse:
        found = self._terminal(terminal_id).output()
        over = found.code is not None or found.signal is not None
        status = TerminalExitStatus(exit_code=found.code, signal=found.signal) if over else None
        return TerminalOutputResponse(output=found.text, truncated=found.truncated, exit_status=status)

    @_answering
    async def wait_for_terminal_exit(self, terminal_id: str, **_: Any) -> WaitForTerminalExitResponse:
        found = await self._terminal(terminal_id).exited()
        return WaitForTerminalExitResponse(exit_code=found.code, signal=found.signal)

    @_answering
    async def kill_terminal(self, terminal_id: str, **_: Any) -> KillTerminalResponse:
        await self._terminal(terminal_id).kill()
        return KillTerminalResponse()

    @_answering
    async def release_terminal(self, terminal_id: str, **_: Any) -> ReleaseTerminalResponse:
        await self._terminals.release(terminal_id)
        return ReleaseTerminalResponse()

    def _terminal(self, name: str) -> Terminal:
        with _translated():
            return self._terminals[name]

    async def _must_be_allowed(self, title: str, kind: str, given: Mapping[str, object]) -> None:
        why = await self._host.veto(read_tool_call({"title": title, "kind": kind, "rawInput": given}))
        if why is not None:
            raise RequestError(-32000, f"blocked: {why}")


@contextmanager
def _translated() -> Iterator[None]:
    """Our errors as the protocol's."""
    try:
        yield
    except FileNotFoundError as error:
        # In the protocol's own words: an agent may know by them that it can write the file anew.
        raise RequestError(-32002, f"Resource not found: {error.filename}", {"uri": error.filename}) from None
    except (HoldfastError, OSError) as error:
        raise RequestError.invalid_params({"details": str(error)}) from None
