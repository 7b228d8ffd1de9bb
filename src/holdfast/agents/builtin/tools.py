"""The model's tools: read, write, edit, glob, grep, bash, plan.

A call is prepared first: its arguments are checked and its diff is computed, and nothing changes. So a person can be
asked with all details on the screen. Then the call is performed.
"""

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.agents.builtin.file_access import ToolRefused, WorktreeFiles
from holdfast.agents.builtin.shell import Shell
from holdfast.leaf.text.tail import BoundedOutput

ToolKind = Literal["read", "edit", "search", "execute", "think", "other"]

MAX_RESULT_CHARS = 50_000  # of one result for the model
_MAX_LINES = 2_000
_MAX_RESULTS = 500
_MAX_WALKED_FILES = 200_000
_MAX_COMMAND_S = 600
_SEARCH_TIMEOUT_S = 30
_MAX_TITLE_CHARS = 120


@dataclass(frozen=True, slots=True)
class ToolDiff:
    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class PlanItem:
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    text: str
    failed: bool = False
    plan: tuple[PlanItem, ...] | None = None


@dataclass(frozen=True, slots=True)
class PreparedCall:
    title: str
    kind: ToolKind
    perform: Callable[[], Awaitable[ToolOutcome]]
    needs_permission: bool = False  # it changes something, so a person may have to allow it
    path: str | None = None
    line: int | None = None
    diff: ToolDiff | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's description for the model."""

    name: str
    description: str
    schema: dict[str, Any]


class ReadArguments(msgspec.Struct):
    """Read a text file. Long files come in parts: use offset and limit."""

    path: Annotated[str, Meta(description="relative to the worktree")]
    offset: Annotated[int, Meta(ge=1, description="first line, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=_MAX_LINES, description="how many lines")] = _MAX_LINES


class WriteArguments(msgspec.Struct):
    """Write a whole file. It is made, with its folders, or replaced."""

    path: Annotated[str, Meta(description="relative to the worktree")]
    content: str


class EditArguments(msgspec.Struct):
    """Replace text in a file. `old` must be there exactly, and once, unless `all` is true."""

    path: Annotated[str, Meta(description="relative to the worktree")]
    old: Annotated[str, Meta(min_length=1, description="the exact text, with its white space")]
    new: str
    all: Annotated[bool, Meta(description="replace every occurrence")] = False


class GlobArguments(msgspec.Struct):
    """Find files by name, such as `**/*.py` or `src/*.ts`."""

    pattern: str
    path: Annotated[str, Meta(description="the folder to look in")] = "."


class GrepArguments(msgspec.Struct):
    """Find lines by an extended regular expression."""

    pattern: str
    path: Annotated[str, Meta(description="the file or folder to look in")] = "."
    include: Annotated[str | None, Meta(description="only files with such a name, as `*.py`")] = None
    ignore_case: bool = False


class BashArguments(msgspec.Struct):
    """Run a shell command in the worktree. It has no input, and nothing of it goes on running afterwards."""

    command: str
    timeout: Annotated[float, Meta(gt=0, le=_MAX_COMMAND_S, description="seconds")] = 120


class PlanStep(msgspec.Struct):
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class PlanArguments(msgspec.Struct):
    """Show the user the plan of the work, and how far it is. Give all of it each time."""

    steps: list[PlanStep]


_ARGUMENT_TYPES: dict[str, type[msgspec.Struct]] = {
    "read": ReadArguments,
    "write": WriteArguments,
    "edit": EditArguments,
    "glob": GlobArguments,
    "grep": GrepArguments,
    "bash": BashArguments,
    "plan": PlanArguments,
}


def tool_specs() -> list[ToolSpec]:
    return [ToolSpec(name, shape.__doc__ or "", _schema(shape)) for name, shape in _ARGUMENT_TYPES.items()]


def _schema(arguments_type: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components((arguments_type,), ref_template="#/$defs/{name}")
    schema: dict[str, Any] = {**components.pop(arguments_type.__name__)}
    for noise in ("title", "description"):
        schema.pop(noise, None)
    return schema | ({"$defs": components} if components else {})


class Toolbox:
    def __init__(self, worktree: WorktreeFiles, shell: Shell) -> None:
        self._worktree = worktree
        self._shell = shell

    def prepare(self, name: str, arguments: object, call_id: str) -> PreparedCall:
        """Check a call and return what it would do. Raises `ToolRefused` with a message for the model."""
        shape = _ARGUMENT_TYPES.get(name)
        if shape is None:
            raise ToolRefused(f"there is no tool {name!r}; there are {', '.join(_ARGUMENT_TYPES)}")
        try:
            parsed = msgspec.convert(arguments, shape, strict=False)
        except msgspec.ValidationError as error:
            raise ToolRefused(f"wrong arguments for {name}: {error}") from None
        match parsed:
            case ReadArguments():
                return self._read(parsed)
            case WriteArguments():
                return self._write(parsed)
            case EditArguments():
                return self._edit(parsed)
            case GlobArguments():
                return self._glob(parsed)
            case GrepArguments():
                return self._grep(parsed)
            case BashArguments():
                return self._bash(parsed, call_id)
            case PlanArguments():
                return _plan(parsed)
        raise AssertionError(f"a tool without a hand: {name}")

    def _read(self, arguments: ReadArguments) -> PreparedCall:
        real = self._worktree.resolve(arguments.path)

        async def perform() -> ToolOutcome:
            lines = _decode_text(self._read_existing(arguments.path), arguments.path).splitlines(keepends=True)
            chosen = lines[arguments.offset - 1 : arguments.offset - 1 + arguments.limit]
            left = len(lines) - (arguments.offset - 1 + len(chosen))
            note = f"\n[… {left} more lines; read from offset {arguments.offset + len(chosen)}]" if left > 0 else ""
            return ToolOutcome(cap_text("".join(chosen)) + note)

        return PreparedCall(
            f"Read {self._worktree.relative_path(real)}", "read", perform, path=real, line=arguments.offset
        )

    def _write(self, arguments: WriteArguments) -> PreparedCall:
        real = self._worktree.resolve(arguments.path)
        try:
            old: str | None = _decode_text(self._worktree.read(arguments.path), arguments.path)
        except (FileNotFoundError, ToolRefused):
            old = None

        async def perform() -> ToolOutcome:
            before = self._worktree.write(arguments.path, arguments.content.encode())
            return ToolOutcome(f"{'made' if before is None else 'replaced'} {self._worktree.relative_path(real)}")

        diff = ToolDiff(real, old, arguments.content)
        return PreparedCall(
            f"Write {self._worktree.relative_path(real)}", "edit", perform, needs_permission=True, path=real, diff=diff
        )

    def _edit(self, arguments: EditArguments) -> PreparedCall:
        real = self._worktree.resolve(arguments.path)
        old = _decode_text(self._read_existing(arguments.path), arguments.path)
        new = _apply_edit(old, arguments)

        async def perform() -> ToolOutcome:  # reads the file again: the call may have waited for a person
            current = _decode_text(self._read_existing(arguments.path), arguments.path)
            self._worktree.write(arguments.path, _apply_edit(current, arguments).encode())
            return ToolOutcome(f"edited {self._worktree.relative_path(real)}")

        title, line = f"Edit {self._worktree.relative_path(real)}", old[: old.index(arguments.old)].count("\n") + 1
        return PreparedCall(
            title, "edit", perform, needs_permission=True, path=real, line=line, diff=ToolDiff(real, old, new)
        )

    def _glob(self, arguments: GlobArguments) -> PreparedCall:
        real = self._worktree.resolve(arguments.path)
        pattern = _glob_pattern(arguments.pattern)

        def find() -> str:
            found: list[str] = []
            walked = 0
            for folder, names in self._worktree.walk(arguments.path):
                for name in names:
                    path = self._worktree.relative_path(f"{folder}/{name}")
                    walked += 1
                    if pattern.fullmatch(path) or pattern.fullmatch(f"{folder}/{name}"[len(real) + 1 :]):
                        found.append(path)
                    if len(found) >= _MAX_RESULTS or walked >= _MAX_WALKED_FILES:
                        return "\n".join([*found, "[… there may be more; use a narrower pattern]"])
            return "\n".join(found) or "no files found"

        async def perform() -> ToolOutcome:
            return ToolOutcome(await asyncio.to_thread(find))

        return PreparedCall(f"Glob {arguments.pattern}", "search", perform, path=real)

    def _grep(self, arguments: GrepArguments) -> PreparedCall:
        real = self._worktree.resolve(arguments.path)
        command = ["grep", "-rnIE", "--exclude-dir=.git", *(["-i"] if arguments.ignore_case else [])]
        command += [f"--include={arguments.include}"] if arguments.include else []
        command += ["-e", arguments.pattern, "--", self._worktree.relative_path(real)]

        async def perform() -> ToolOutcome:
            return await _run_search(command, self._worktree.root)

        return PreparedCall(f"Grep {arguments.pattern}"[:_MAX_TITLE_CHARS], "search", perform, path=real)

    def _bash(self, arguments: BashArguments, call_id: str) -> PreparedCall:
        async def perform() -> ToolOutcome:
            ran = await self._shell.run(arguments.command, call_id, arguments.timeout)
            if ran.exit_code is None:
                return ToolOutcome(
                    f"{ran.output}\n[killed: it ran longer than {arguments.timeout:g} seconds]", failed=True
                )
            ending = f"\n[exit code {ran.exit_code}]" if ran.exit_code else ""
            return ToolOutcome((ran.output or "[no output]") + ending, failed=ran.exit_code != 0)

        title = " ".join(arguments.command.split())
        return PreparedCall(f"Run {title}"[:_MAX_TITLE_CHARS], "execute", perform, needs_permission=True)

    def _read_existing(self, path: str) -> bytes:
        try:
            return self._worktree.read(path)
        except FileNotFoundError:
            raise ToolRefused(f"{path} does not exist") from None


def _plan(arguments: PlanArguments) -> PreparedCall:
    steps = tuple(PlanItem(step.content, step.status) for step in arguments.steps)

    async def perform() -> ToolOutcome:
        return ToolOutcome("the plan is shown", plan=steps)

    return PreparedCall("Plan", "think", perform)


async def _run_search(command: list[str], folder: str) -> ToolOutcome:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    found = BoundedOutput(MAX_RESULT_CHARS)
    ended = False
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_SEARCH_TIMEOUT_S):
            while data := await process.stdout.read(65_536):
                found.add(data)
                if found.dropped_bytes:
                    break
            else:
                ended = True
    except TimeoutError:
        return ToolOutcome(f"{found.text()}\n[stopped after {_SEARCH_TIMEOUT_S} seconds]", failed=True)
    finally:
        if not ended:
            _kill(process)
        code = await process.wait()
    if code not in (0, 1, -9):
        return ToolOutcome(found.text(), failed=True)
    return ToolOutcome(found.text() or "no lines found")


def _kill(process: asyncio.subprocess.Process) -> None:
    try:  # noqa: SIM105 - the process may have exited
        process.kill()
    except ProcessLookupError:
        pass


def _decode_text(data: bytes, path: str) -> str:
    if b"\0" in data[:8192]:
        raise ToolRefused(f"{path} is a binary file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolRefused(f"{path} is not UTF-8 text") from None


def _apply_edit(text: str, arguments: EditArguments) -> str:
    count = text.count(arguments.old)
    if count == 0:
        raise ToolRefused(f"`old` is not in {arguments.path}; read the file and give the exact text")
    if count > 1 and not arguments.all:
        raise ToolRefused(f"`old` is {count} times in {arguments.path}; give more of the text around it, or set `all`")
    return text.replace(arguments.old, arguments.new)


def _glob_pattern(pattern: str) -> re.Pattern[str]:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./"))
    return re.compile("".join(parts.get(piece) or re.escape(piece) for piece in pieces))


def cap_text(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return (
        f"{text[: MAX_RESULT_CHARS // 2]}\n[… {len(text) - MAX_RESULT_CHARS} characters "
        f"left out …]\n{text[-MAX_RESULT_CHARS // 2 :]}"
    )
