"""The client side of ACP: the requests that an agent can make, inside its worktree and with the host's consent."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from holdfast.agents.acp.file_access import read_text, write_text
from holdfast.agents.acp.messages import (
    AcpMessage,
    CreateTerminal,
    ReadTextFile,
    RequestPermission,
    TerminalTarget,
    WriteTextFile,
    read_message,
    to_wire,
)
from holdfast.agents.jsonrpc.connection import (
    INTERNAL_ERROR_CODE,
    INVALID_PARAMS_CODE,
    METHOD_NOT_FOUND_CODE,
    RESOURCE_NOT_FOUND_CODE,
    JsonRpcError,
)
from holdfast.agents.process.terminals import Terminal, TerminalOutput, Terminals
from holdfast.agents.process.tree import finish_uncancelled
from holdfast.core.conversation.tool_call import ToolCall, read_tool_call
from holdfast.leaf.errors import HoldfastError

BLOCKED_CODE = -32000

RecordAllowedCall = Callable[[dict[str, Any]], Awaitable[None]]
LookUpCall = Callable[[str], Mapping[str, Any]]
StoreText = Callable[[], Awaitable[None]]
Answer = dict[str, Any]


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
        store_text: StoreText,
    ) -> None:
        """`record_allowed_call` records an allowed call before the agent gets the answer.

        `look_up_call` returns what the agent said about a call before it asked. `store_text` stores what it said so
        far: a person who has to answer reads that first, and a request can wait for hours.
        """
        self._record_allowed_call = record_allowed_call
        self._look_up_call = look_up_call
        self._store_text = store_text
        self._cwd = cwd
        self._host = host
        self._terminals = terminals
        self._files_lock = asyncio.Lock()  # one request at a time, in order
        self._methods: dict[str, tuple[type[AcpMessage], Callable[[Any], Awaitable[Answer]]]] = {
            "session/request_permission": (RequestPermission, self._request_permission),
            "fs/read_text_file": (ReadTextFile, self._read_text_file),
            "fs/write_text_file": (WriteTextFile, self._write_text_file),
            "terminal/create": (CreateTerminal, self._create_terminal),
            "terminal/output": (TerminalTarget, self._terminal_output),
            "terminal/wait_for_exit": (TerminalTarget, self._wait_for_terminal_exit),
            "terminal/kill": (TerminalTarget, self._kill_terminal),
            "terminal/release": (TerminalTarget, self._release_terminal),
        }

    async def handle(self, method: str, params: Any, _: Any = None) -> Answer:
        """Answer a request. Raises `JsonRpcError`."""
        if method not in self._methods:
            raise JsonRpcError(METHOD_NOT_FOUND_CODE, "Method not found", {"method": method})
        kind, answer = self._methods[method]
        try:
            request = read_message(kind, params)
        except msgspec.ValidationError as error:
            raise _invalid_params(error) from None
        try:
            return await answer(request)
        except HoldfastError as error:
            raise JsonRpcError(INTERNAL_ERROR_CODE, "Internal error", {"details": str(error)}) from None

    async def _request_permission(self, request: RequestPermission) -> Answer:
        call = to_wire(request.tool_call)
        question = PermissionQuestion(
            call=read_tool_call(call, self._look_up_call(request.tool_call.tool_call_id)),
            options=tuple((option.option_id, option.name, option.kind) for option in request.options),
        )
        await self._store_text()
        chosen = await self._host.permit(question)
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        if any(kind.startswith("allow") for option, _, kind in question.options if option == chosen):
            await self._record_allowed_call(call)
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async def _read_text_file(self, request: ReadTextFile) -> Answer:
        path = request.path
        await self._check_veto("read_text_file", "read", {"path": path})
        async with self._files_lock:
            with _translate_errors():
                content = await asyncio.to_thread(read_text, self._cwd, path, request.line, request.limit)
        return {"content": content}

    async def _write_text_file(self, request: WriteTextFile) -> Answer:
        path, content = request.path, request.content
        await self._check_veto("write_text_file", "edit", {"path": path, "content": content})
        async with self._files_lock:
            with _translate_errors():  # a write that outlives its agent would overwrite the next agent's work
                await finish_uncancelled(asyncio.to_thread(write_text, self._cwd, path, content))
        return {}

    async def _create_terminal(self, request: CreateTerminal) -> Answer:
        command, arguments = request.command, list(request.args or ())
        raw_input = {"command": command, "args": arguments, "cwd": request.cwd}
        await self._check_veto(" ".join((command, *arguments)), "execute", raw_input)
        environment = {variable.name: variable.value for variable in request.env or ()}
        try:
            terminal_id = await self._terminals.create(
                command, arguments, request.cwd, environment, request.output_byte_limit
            )
        except HoldfastError as error:
            raise _invalid_params(error) from None
        return {"terminalId": terminal_id}

    async def _terminal_output(self, request: TerminalTarget) -> Answer:
        output = self._terminal(request).output()
        answer: Answer = {"output": output.text, "truncated": output.is_truncated}
        status = _exit_status(output)
        return {**answer, "exitStatus": status} if status else answer

    async def _wait_for_terminal_exit(self, request: TerminalTarget) -> Answer:
        return _exit_status(await self._terminal(request).wait_for_exit())

    async def _kill_terminal(self, request: TerminalTarget) -> Answer:
        await self._terminal(request).kill()
        return {}

    async def _release_terminal(self, request: TerminalTarget) -> Answer:
        await self._terminals.release(request.terminal_id)
        return {}

    def _terminal(self, request: TerminalTarget) -> Terminal:
        with _translate_errors():
            return self._terminals[request.terminal_id]

    async def _check_veto(self, title: str, kind: str, raw_input: Mapping[str, object]) -> None:
        reason = await self._host.veto(read_tool_call({"title": title, "kind": kind, "rawInput": raw_input}))
        if reason is not None:
            raise JsonRpcError(BLOCKED_CODE, f"blocked: {reason}")


def _exit_status(output: TerminalOutput) -> Answer:
    """Return how a command ended; empty while it runs."""
    status: Answer = {"exitCode": output.exit_code, "signal": output.signal}
    return {name: value for name, value in status.items() if value is not None}


def _invalid_params(error: Exception) -> JsonRpcError:
    return JsonRpcError(INVALID_PARAMS_CODE, "Invalid params", {"details": str(error)})


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise our errors as protocol errors."""
    try:
        yield
    except FileNotFoundError as error:
        # The protocol's own text: agents recognize it and create the file.
        message = f"Resource not found: {error.filename}"
        raise JsonRpcError(RESOURCE_NOT_FOUND_CODE, message, {"uri": error.filename}) from None
    except (HoldfastError, OSError) as error:
        raise _invalid_params(error) from None
