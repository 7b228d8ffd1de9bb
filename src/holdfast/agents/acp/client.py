"""The client side of ACP: the requests that an agent can make, inside its worktree and with the host's consent."""

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
from holdfast.agents.process.tree import finish_uncancelled
from holdfast.core.conversation.tool_call import ToolCall, read_tool_call
from holdfast.leaf.errors import HoldfastError

RecordAllowedCall = Callable[[dict[str, Any]], Awaitable[None]]
LookUpCall = Callable[[str], Mapping[str, Any]]
P = ParamSpec("P")
T = TypeVar("T")


def _answer_errors(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Send our errors to the agent as answers; the library would only print them."""

    @wraps(method)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except HoldfastError as error:
            raise RequestError.internal_error({"details": str(error)}) from None

    return answer


class PermissionQuestion(NamedTuple):
    """A permission request: the tool call and the options to choose from."""

    call: ToolCall
    options: tuple[tuple[str, str, str], ...]  # id, name, kind


class Host(Protocol):
    """Decides about the agent's tool calls."""

    async def permit(self, request: PermissionQuestion) -> str | None:
        """Return the id of the chosen option; None when none was chosen."""
        ...

    async def veto(self, call: ToolCall) -> str | None:
        """Return why a tool call is blocked; None when it is allowed."""
        ...


class AcpClient:
    """Answers the requests of one agent."""

    def __init__(
        self,
        cwd: str,
        host: Host,
        terminals: Terminals,
        record_allowed_call: RecordAllowedCall,
        look_up_call: LookUpCall,
    ) -> None:
        """`record_allowed_call` records an allowed call before the agent gets the answer.

        `look_up_call` returns what the agent said about a call before it asked.
        """
        self._record_allowed_call = record_allowed_call
        self._look_up_call = look_up_call
        self._cwd = cwd
        self._host = host
        self._terminals = terminals
        self._files_lock = asyncio.Lock()  # one request at a time, in order

    @_answer_errors
    async def request_permission(
        self, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        update = tool_call.model_dump(by_alias=True, exclude_none=True, mode="json")
        request = PermissionQuestion(
            call=read_tool_call(update, self._look_up_call(tool_call.tool_call_id)),
            options=tuple((option.option_id, option.name, str(option.kind)) for option in options),
        )
        chosen = await self._host.permit(request)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        if any(kind.startswith("allow") for option, _, kind in request.options if option == chosen):
            await self._record_allowed_call(update)
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    async def session_update(self, **_: Any) -> None:
        """Never called: the transport handles updates."""

    @_answer_errors
    async def read_text_file(
        self, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> ReadTextFileResponse:
        await self._check_veto("read_text_file", "read", {"path": path})
        async with self._files_lock:
            with _translate_errors():
                content = await asyncio.to_thread(read_text, self._cwd, path, line, limit)
        return ReadTextFileResponse(content=content)

    @_answer_errors
    async def write_text_file(self, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        await self._check_veto("write_text_file", "edit", {"path": path, "content": content})
        async with self._files_lock:
            with _translate_errors():  # a write that outlives its agent would overwrite the next agent's work
                await finish_uncancelled(asyncio.to_thread(write_text, self._cwd, path, content))
        return WriteTextFileResponse()

    @_answer_errors
    async def create_terminal(
        self,
        command: str,
        args: list[str] | None = None,
        env: list[EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> CreateTerminalResponse:
        raw_input = {"command": command, "args": args or [], "cwd": cwd}
        await self._check_veto(" ".join((command, *(args or ()))), "execute", raw_input)
        environment: Mapping[str, str] = {variable.name: variable.value for variable in env or ()}
        try:
            terminal_id = await self._terminals.create(command, args or [], cwd, environment, output_byte_limit)
        except HoldfastError as error:
            raise RequestError.invalid_params({"details": str(error)}) from None
        return CreateTerminalResponse(terminal_id=terminal_id)

    async def terminal_output(self, terminal_id: str, **_: Any) -> TerminalOutputResponse:
        output = self._terminal(terminal_id).output()
        has_exited = output.exit_code is not None or output.signal is not None
        status = TerminalExitStatus(exit_code=output.exit_code, signal=output.signal) if has_exited else None
        return TerminalOutputResponse(output=output.text, truncated=output.is_truncated, exit_status=status)

    @_answer_errors
    async def wait_for_terminal_exit(self, terminal_id: str, **_: Any) -> WaitForTerminalExitResponse:
        output = await self._terminal(terminal_id).wait_for_exit()
        return WaitForTerminalExitResponse(exit_code=output.exit_code, signal=output.signal)

    @_answer_errors
    async def kill_terminal(self, terminal_id: str, **_: Any) -> KillTerminalResponse:
        await self._terminal(terminal_id).kill()
        return KillTerminalResponse()

    @_answer_errors
    async def release_terminal(self, terminal_id: str, **_: Any) -> ReleaseTerminalResponse:
        await self._terminals.release(terminal_id)
        return ReleaseTerminalResponse()

    def _terminal(self, terminal_id: str) -> Terminal:
        with _translate_errors():
            return self._terminals[terminal_id]

    async def _check_veto(self, title: str, kind: str, raw_input: Mapping[str, object]) -> None:
        reason = await self._host.veto(read_tool_call({"title": title, "kind": kind, "rawInput": raw_input}))
        if reason is not None:
            raise RequestError(-32000, f"blocked: {reason}")


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise our errors as protocol errors."""
    try:
        yield
    except FileNotFoundError as error:
        # The protocol's own text: agents recognize it and create the file.
        raise RequestError(-32002, f"Resource not found: {error.filename}", {"uri": error.filename}) from None
    except (HoldfastError, OSError) as error:
        raise RequestError.invalid_params({"details": str(error)}) from None
