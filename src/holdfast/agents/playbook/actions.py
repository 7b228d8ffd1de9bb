"""Steps that change the world: files and commands, by the agent's own hand or through the client."""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from holdfast.agents.playbook.format import Delete, McpCall, McpTools, Read, Replace, Run, Via, WaitFor, Write
from holdfast.agents.playbook.jsonrpc import Refusal
from holdfast.agents.playbook.mcp_servers import Called, NoServer
from holdfast.agents.playbook.turn import CannotPlay, Stage, tool_diff, tool_text
from holdfast.leaf.failpoints import around

_CRASH = around("playbook.deed")
_MOST_OUTPUT = 1 << 20  # bytes of a command's output that are kept
_LOOK = 0.01  # seconds between two looks for a file
_SHELL = "/bin/sh"
_DAEMON = f'{_SHELL} -c "$0" </dev/null >/dev/null 2>&1 & echo $!'  # the shell between ends: nobody's child


class _Shown:
    """The tool call by which the client sees a deed; `content` and `output` go into its end."""

    def __init__(self) -> None:
        self.content: list[dict[str, Any]] = []
        self.output: Any = None


@asynccontextmanager
async def _tool(
    stage: Stage, title: str, kind: str, path: str | None, *, shown: bool, given: Any = None
) -> AsyncIterator[_Shown]:
    tool = _Shown()
    if not shown:
        yield tool
        return
    call = stage.new_tool_call()
    locations = [{"path": path}] if path else None
    about = {"title": title, "kind": kind, "locations": locations, "rawInput": given}
    await stage.update("tool_call", toolCallId=call, status="in_progress", **about)
    try:
        yield tool
    except (CannotPlay, OSError, Refusal, NoServer) as error:
        await stage.update("tool_call_update", toolCallId=call, status="failed", content=[tool_text(str(error))])
        raise
    await stage.update(
        "tool_call_update",
        toolCallId=call,
        status="completed",
        content=tool.content or None,
        rawOutput=tool.output,
    )


@contextmanager
def _deed() -> Iterator[None]:
    """What changes the world; the client has been told of its beginning, and not of its end."""
    _CRASH.before()
    yield
    _CRASH.after()


# --- files -------------------------------------------------------------------------------------------


async def write(stage: Stage, step: Write) -> None:
    path, text = stage.path(step.path), stage.fill(step.text)
    async with _tool(stage, f"Write {step.path}", "edit", path, shown=step.shown) as tool:
        old = await _read(stage, path, "direct", missing=None)
        await _write(stage, path, text, step.via)
        tool.content = [tool_diff(path, old, text)]


async def append(stage: Stage, step: Write) -> None:
    path, text = stage.path(step.path), stage.fill(step.text)
    async with _tool(stage, f"Append to {step.path}", "edit", path, shown=step.shown) as tool:
        if step.via == "client":
            old = await _read(stage, path, "client", missing="") or ""
            await _write(stage, path, old + text, "client")
        else:
            old = await _read(stage, path, "direct", missing="") or ""
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with _deed(), open(path, "a", encoding="utf-8") as file:
                file.write(text)
        tool.content = [tool_diff(path, old, old + text)]


async def replace(stage: Stage, step: Replace) -> None:
    path, part, by = stage.path(step.path), stage.fill(step.old), stage.fill(step.new)
    async with _tool(stage, f"Edit {step.path}", "edit", path, shown=step.shown) as tool:
        old = await _read(stage, path, step.via, missing=None)
        if old is None or part not in old:
            raise CannotPlay(f"{step.path}: {'not there' if old is None else f'{part!r} is not in it'}")
        new = old.replace(part, by, 1)
        await _write(stage, path, new, step.via)
        tool.content = [tool_diff(path, old, new)]


async def delete(stage: Stage, step: Delete) -> None:
    path = stage.path(step.path)
    async with _tool(stage, f"Delete {step.path}", "delete", path, shown=step.shown):
        with _deed():
            os.unlink(path)


async def read(stage: Stage, step: Read) -> None:
    path = stage.path(step.path)
    async with _tool(stage, f"Read {step.path}", "read", path, shown=step.shown) as tool:
        if step.via == "client":
            asked = {name: value for name, value in (("line", step.line), ("limit", step.limit)) if value is not None}
            answer = await stage.ask("fs/read_text_file", path=path, **asked)
            stage.result = str(answer["content"])
        else:
            lines = _content_of(path).splitlines(keepends=True)
            first = (step.line or 1) - 1
            stage.result = "".join(lines[first : None if step.limit is None else first + step.limit])
        tool.content = [tool_text(stage.result)]


async def _read(stage: Stage, path: str, via: Via, missing: str | None) -> str | None:
    """The text of a file; `missing` when there is none."""
    try:
        if via == "client":
            return str((await stage.ask("fs/read_text_file", path=path))["content"])
        return _content_of(path)
    except (FileNotFoundError, Refusal):
        return missing


def _content_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


async def _write(stage: Stage, path: str, text: str, via: Via) -> None:
    if via == "client":
        with _deed():
            await stage.ask("fs/write_text_file", path=path, content=text)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _deed(), open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


async def wait_for(stage: Stage, step: WaitFor) -> None:
    path = stage.path(step.path)
    try:
        async with asyncio.timeout(step.timeout):
            while os.path.exists(path) == step.gone:  # noqa: ASYNC110 - a file sets no event
                await asyncio.sleep(_LOOK)
    except TimeoutError:
        raise CannotPlay(f"{step.path} is {'still' if step.gone else 'not'} there after {step.timeout} s") from None


# --- commands ----------------------------------------------------------------------------------------


async def run(stage: Stage, step: Run) -> None:
    command = stage.fill(step.command)
    async with _tool(stage, command, "execute", None, shown=step.shown, given={"command": command}) as tool:
        with _deed():
            if step.via == "client":
                tool.content = await _run_by_client(stage, step, command)
            elif step.background or step.apart == "daemon":
                stage.result = _leave_running(stage, step, command)
            else:
                await _run_to_the_end(stage, step, command)
                tool.content = [tool_text(stage.result)]
                tool.output = {"exitCode": stage.exit}


def _environment(stage: Stage, step: Run) -> dict[str, str]:
    own = {"PATH": os.environ.get("PATH", os.defpath)} if step.clear_env else dict(os.environ)
    return own | {name: stage.fill(value) for name, value in step.env.items()}


def _apart(step: Run) -> dict[str, Any]:
    ways: dict[str, dict[str, Any]] = {
        "same": {},
        "group": {"process_group": 0},
        "session": {"start_new_session": True},
        "daemon": {"start_new_session": True},
    }
    return ways[step.apart]


async def _run_to_the_end(stage: Stage, step: Run, command: str) -> None:
    # into a file, not a pipe: what the command leaves behind in the background would keep a pipe open
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_exec(
            _SHELL,
            "-c",
            command,
            cwd=stage.record.cwd,
            env=_environment(stage, step),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            close_fds=False,  # what we were given to hold, all that we start holds too
            **_apart(step),
        )
        try:
            stage.exit = await process.wait()
        except BaseException:
            _kill(process.pid, alone=step.apart == "same")
            await process.wait()
            raise
        output.seek(0)
        stage.result = output.read(_MOST_OUTPUT).decode(errors="replace")


def _kill(pid: int, *, alone: bool) -> None:
    with suppress(ProcessLookupError):
        if alone:
            os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(pid, signal.SIGKILL)


def _leave_running(stage: Stage, step: Run, command: str) -> str:
    """Its pid. It is nobody's business any more: it lives on when the agent dies."""
    env, nothing = _environment(stage, step), subprocess.DEVNULL
    how: dict[str, Any] = {"cwd": stage.record.cwd, "env": env, "stdin": nothing, "close_fds": False}
    if step.apart == "daemon":
        between = subprocess.run(
            [_SHELL, "-c", _DAEMON, command], **how, stdout=subprocess.PIPE, check=True, **_apart(step)
        )
        return str(between.stdout.decode().strip())
    process = subprocess.Popen([_SHELL, "-c", command], **how, stdout=nothing, stderr=nothing, **_apart(step))
    stage.left_running.append(process)
    return str(process.pid)


async def _run_by_client(stage: Stage, step: Run, command: str) -> list[dict[str, Any]]:
    env = [{"name": name, "value": stage.fill(value)} for name, value in step.env.items()]
    made = await stage.ask("terminal/create", command=_SHELL, args=["-c", command], cwd=stage.record.cwd, env=env)
    terminal = made["terminalId"]
    content = [{"type": "terminal", "terminalId": terminal}]
    if step.shown:
        await stage.update("tool_call_update", toolCallId=stage.tool_call, status="in_progress", content=content)
    stage.result = str(terminal)
    if not step.background:
        try:
            ended = await stage.ask("terminal/wait_for_exit", terminalId=terminal)
        except asyncio.CancelledError:
            await stage.ask("terminal/kill", terminalId=terminal)
            await stage.ask("terminal/release", terminalId=terminal)
            raise
        stage.exit = ended.get("exitCode") or 0
        stage.result = str((await stage.ask("terminal/output", terminalId=terminal))["output"])
        await stage.ask("terminal/release", terminalId=terminal)
    return content


# --- tools of MCP servers ----------------------------------------------------------------------------


async def call_tool(stage: Stage, step: McpCall) -> None:
    if not stage.has_tools:  # as a model without the tool: it says so, and its turn goes on
        await stage.say(f"I have no tool {step.tool}.")
        return
    name = f"{step.server}: {step.tool}" if step.server else step.tool
    given = stage.fill_all(step.arguments)
    async with _tool(stage, name, "other", None, shown=step.shown, given=given) as tool:
        try:
            async with asyncio.timeout(step.timeout):
                called = await _tried(stage, step)
        except TimeoutError:
            raise CannotPlay(f"the MCP tool {step.tool} did not answer within {step.timeout} s") from None
        stage.result = called.text
        if step.expect != "any" and called.is_error != (step.expect == "error"):
            raise CannotPlay(f"the MCP tool {step.tool}: expected {step.expect}, got: {stage.result}")
        tool.content = [tool_text(stage.result)]
    if step.say:
        await stage.say(stage.result)


async def _tried(stage: Stage, step: McpCall) -> Called:
    left = step.tries
    while True:
        with _deed():
            called = await stage.servers.call(step.server, step.tool, stage.fill_all(step.arguments))
        left -= 1
        if not left or not called.is_error:
            return called


async def list_tools(stage: Stage, step: McpTools) -> None:
    try:
        async with asyncio.timeout(step.timeout):
            stage.result = ", ".join(await stage.servers.tools(step.server))
    except TimeoutError:
        raise CannotPlay(f"the MCP server did not list its tools within {step.timeout} s") from None
