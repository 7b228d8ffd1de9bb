"""Steps that change the world: files and commands, directly or through the client."""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from holdfast.agents.jsonrpc.connection import JsonRpcError
from holdfast.agents.playbook.format import Delete, McpCall, McpTools, Read, Replace, Run, Via, WaitFor, Write
from holdfast.agents.playbook.mcp_client import McpCallResult
from holdfast.agents.playbook.mcp_servers import NoMcpServer
from holdfast.agents.playbook.turn import RunningTurn, StepImpossible, tool_diff, tool_text
from holdfast.leaf.failpoints import failpoint_pair

_FAILPOINT = failpoint_pair("playbook.deed")
_MAX_OUTPUT_BYTES = 1 << 20  # of a command's output
_POLL_INTERVAL_S = 0.01  # between two checks for a file
_SHELL = "/bin/sh"
_DAEMON_COMMAND = (
    f'{_SHELL} -c "$0" </dev/null >/dev/null 2>&1 & echo $!'  # the shell in between exits, so it becomes an orphan
)


class _ShownCall:
    """The tool call that shows an action to the client; `content` and `output` go into its last update."""

    def __init__(self) -> None:
        self.content: list[dict[str, Any]] = []
        self.output: Any = None


@asynccontextmanager
async def _show_tool_call(
    turn: RunningTurn, title: str, kind: str, path: str | None, *, is_shown: bool, raw_input: Any = None
) -> AsyncIterator[_ShownCall]:
    tool = _ShownCall()
    if not is_shown:
        yield tool
        return
    call = turn.new_tool_call()
    locations = [{"path": path}] if path else None
    about = {"title": title, "kind": kind, "locations": locations, "rawInput": raw_input}
    await turn.update("tool_call", toolCallId=call, status="in_progress", **about)
    try:
        yield tool
    except (StepImpossible, OSError, JsonRpcError, NoMcpServer) as error:
        await turn.update("tool_call_update", toolCallId=call, status="failed", content=[tool_text(str(error))])
        raise
    await turn.update(
        "tool_call_update",
        toolCallId=call,
        status="completed",
        content=tool.content or None,
        rawOutput=tool.output,
    )


@contextmanager
def _side_effect() -> Iterator[None]:
    """Wrap an action with effects, between the reports of its start and its end."""
    _FAILPOINT.before()
    yield
    _FAILPOINT.after()


# --- files -------------------------------------------------------------------------------------------


async def write(turn: RunningTurn, step: Write) -> None:
    path, text = turn.path(step.path), turn.fill(step.text)
    async with _show_tool_call(turn, f"Write {step.path}", "edit", path, is_shown=step.shown) as tool:
        old = await _read_file(turn, path, "direct", missing=None)
        await _write_file(turn, path, text, step.via)
        tool.content = [tool_diff(path, old, text)]


async def append(turn: RunningTurn, step: Write) -> None:
    path, text = turn.path(step.path), turn.fill(step.text)
    async with _show_tool_call(turn, f"Append to {step.path}", "edit", path, is_shown=step.shown) as tool:
        if step.via == "client":
            old = await _read_file(turn, path, "client", missing="") or ""
            await _write_file(turn, path, old + text, "client")
        else:
            old = await _read_file(turn, path, "direct", missing="") or ""
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with _side_effect(), open(path, "a", encoding="utf-8") as file:
                file.write(text)
        tool.content = [tool_diff(path, old, old + text)]


async def replace(turn: RunningTurn, step: Replace) -> None:
    path, part, by = turn.path(step.path), turn.fill(step.old), turn.fill(step.new)
    async with _show_tool_call(turn, f"Edit {step.path}", "edit", path, is_shown=step.shown) as tool:
        old = await _read_file(turn, path, step.via, missing=None)
        if old is None or part not in old:
            raise StepImpossible(f"{step.path}: {'not there' if old is None else f'{part!r} is not in it'}")
        new = old.replace(part, by, 1)
        await _write_file(turn, path, new, step.via)
        tool.content = [tool_diff(path, old, new)]


async def delete(turn: RunningTurn, step: Delete) -> None:
    path = turn.path(step.path)
    async with _show_tool_call(turn, f"Delete {step.path}", "delete", path, is_shown=step.shown):
        with _side_effect():
            os.unlink(path)


async def read(turn: RunningTurn, step: Read) -> None:
    path = turn.path(step.path)
    async with _show_tool_call(turn, f"Read {step.path}", "read", path, is_shown=step.shown) as tool:
        if step.via == "client":
            parameters = {
                name: value for name, value in (("line", step.line), ("limit", step.limit)) if value is not None
            }
            answer = await turn.request("fs/read_text_file", path=path, **parameters)
            turn.result = str(answer["content"])
        else:
            lines = _read_direct(path).splitlines(keepends=True)
            first = (step.line or 1) - 1
            turn.result = "".join(lines[first : None if step.limit is None else first + step.limit])
        tool.content = [tool_text(turn.result)]


async def _read_file(turn: RunningTurn, path: str, via: Via, missing: str | None) -> str | None:
    """Return the text of a file; `missing` if there is none."""
    try:
        if via == "client":
            return str((await turn.request("fs/read_text_file", path=path))["content"])
        return _read_direct(path)
    except (FileNotFoundError, JsonRpcError):
        return missing


def _read_direct(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


async def _write_file(turn: RunningTurn, path: str, text: str, via: Via) -> None:
    if via == "client":
        with _side_effect():
            await turn.request("fs/write_text_file", path=path, content=text)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _side_effect(), open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


async def wait_for(turn: RunningTurn, step: WaitFor) -> None:
    path = turn.path(step.path)
    try:
        async with asyncio.timeout(step.timeout):
            while os.path.exists(path) == step.gone:  # noqa: ASYNC110 - no event reports a file
                await asyncio.sleep(_POLL_INTERVAL_S)
    except TimeoutError:
        raise StepImpossible(f"{step.path} is {'still' if step.gone else 'not'} there after {step.timeout} s") from None


# --- commands ----------------------------------------------------------------------------------------


async def run(turn: RunningTurn, step: Run) -> None:
    command = turn.fill(step.command)
    async with _show_tool_call(
        turn, command, "execute", None, is_shown=step.shown, raw_input={"command": command}
    ) as tool:
        with _side_effect():
            if step.via == "client":
                tool.content = await _run_by_client(turn, step, command)
            elif step.background or step.apart == "daemon":
                turn.result = _run_in_background(turn, step, command)
            else:
                await _run_to_end(turn, step, command)
                tool.content = [tool_text(turn.result)]
                tool.output = {"exitCode": turn.exit_code}


def _environment(turn: RunningTurn, step: Run) -> dict[str, str]:
    own = {"PATH": os.environ.get("PATH", os.defpath)} if step.clear_env else dict(os.environ)
    return own | {name: turn.fill(value) for name, value in step.env.items()}


def _process_options(step: Run) -> dict[str, Any]:
    ways: dict[str, dict[str, Any]] = {
        "same": {},
        "group": {"process_group": 0},
        "session": {"start_new_session": True},
        "daemon": {"start_new_session": True},
    }
    return ways[step.apart]


async def _run_to_end(turn: RunningTurn, step: Run, command: str) -> None:
    # into a file: a background process of the command would keep a pipe open
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            _SHELL,
            "-c",
            command,
            cwd=turn.record.cwd,
            env=_environment(turn, step),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            close_fds=False,  # children inherit the descriptors that we inherited
            **_process_options(step),
        )
        try:
            turn.exit_code = await process.wait()
        except BaseException:
            _kill(process.pid, alone=step.apart == "same")
            await process.wait()
            raise
        output.seek(0)
        turn.result = output.read(_MAX_OUTPUT_BYTES).decode(errors="replace")


def _kill(pid: int, *, alone: bool) -> None:
    with suppress(ProcessLookupError):
        if alone:
            os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(pid, signal.SIGKILL)


def _run_in_background(turn: RunningTurn, step: Run, command: str) -> str:
    """Start a daemon that outlives the agent. Returns its pid."""
    env, devnull = _environment(turn, step), subprocess.DEVNULL
    how: dict[str, Any] = {"cwd": turn.record.cwd, "env": env, "stdin": devnull, "close_fds": False}
    if step.apart == "daemon":
        between = subprocess.run(
            [_SHELL, "-c", _DAEMON_COMMAND, command],
            **how,
            stdout=subprocess.PIPE,
            check=True,
            **_process_options(step),
        )
        return str(between.stdout.decode().strip())
    process = subprocess.Popen([_SHELL, "-c", command], **how, stdout=devnull, stderr=devnull, **_process_options(step))
    turn.background_pids.append(process)
    return str(process.pid)


async def _run_by_client(turn: RunningTurn, step: Run, command: str) -> list[dict[str, Any]]:
    env = [{"name": name, "value": turn.fill(value)} for name, value in step.env.items()]
    created = await turn.request("terminal/create", command=_SHELL, args=["-c", command], cwd=turn.record.cwd, env=env)
    terminal = created["terminalId"]
    content = [{"type": "terminal", "terminalId": terminal}]
    if step.shown:
        await turn.update("tool_call_update", toolCallId=turn.tool_call_id, status="in_progress", content=content)
    turn.result = str(terminal)
    if not step.background:
        try:
            ended = await turn.request("terminal/wait_for_exit", terminalId=terminal)
        except asyncio.CancelledError:
            await turn.request("terminal/kill", terminalId=terminal)
            await turn.request("terminal/release", terminalId=terminal)
            raise
        turn.exit_code = ended.get("exitCode") or 0
        turn.result = str((await turn.request("terminal/output", terminalId=terminal))["output"])
        await turn.request("terminal/release", terminalId=terminal)
    return content


# --- tools of MCP servers ----------------------------------------------------------------------------


async def call_tool(turn: RunningTurn, step: McpCall) -> None:
    if not turn.has_tools:  # like a model without the tool: it says so, and the turn continues
        await turn.say(f"I have no tool {step.tool}.")
        return
    name = f"{step.server}: {step.tool}" if step.server else step.tool
    given = turn.fill_all(step.arguments)
    async with _show_tool_call(turn, name, "other", None, is_shown=step.shown, raw_input=given) as tool:
        try:
            async with asyncio.timeout(step.timeout):
                called = await _call_with_retries(turn, step)
        except TimeoutError:
            raise StepImpossible(f"the MCP tool {step.tool} did not answer within {step.timeout} s") from None
        turn.result = called.text
        if step.expect != "any" and called.is_error != (step.expect == "error"):
            raise StepImpossible(f"the MCP tool {step.tool}: expected {step.expect}, got: {turn.result}")
        tool.content = [tool_text(turn.result)]
    if step.say:
        await turn.say(turn.result)


async def _call_with_retries(turn: RunningTurn, step: McpCall) -> McpCallResult:
    left = step.tries
    while True:
        with _side_effect():
            called = await turn.servers.call(step.server, step.tool, turn.fill_all(step.arguments))
        left -= 1
        if not left or not called.is_error:
            return called


async def list_tools(turn: RunningTurn, step: McpTools) -> None:
    try:
        async with asyncio.timeout(step.timeout):
            turn.result = ", ".join(await turn.servers.list_tools(step.server))
    except TimeoutError:
        raise StepImpossible(f"the MCP server did not list its tools within {step.timeout} s") from None
