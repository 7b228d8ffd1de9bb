"""What the model can do: read, write, edit, glob, grep, bash, plan.

A call is prepared first (its arguments checked, its diff made, nothing changed), so that a person can be asked with the
whole of it on the screen; then it is performed.
"""

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.agents.builtin.file_access import Refused, Worktree
from holdfast.agents.builtin.shell import Shell
from holdfast.leaf.text.tail import Tail

Kind = Literal["read", "edit", "search", "execute", "think", "other"]

MAX_TEXT = 50_000  # characters of one result that reach the model
_MAX_LINES = 2_000
_MAX_FOUND = 500
_MAX_WALKED = 200_000
_MAX_SECONDS = 600
_SEARCH_SECONDS = 30
_TITLE = 120


@dataclass(frozen=True, slots=True)
class Diff:
    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class Step:
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str
    failed: bool = False
    plan: tuple[Step, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    title: str
    kind: Kind
    perform: Callable[[], Awaitable[Outcome]]
    asks: bool = False  # changes something: a person may want to be asked
    path: str | None = None
    line: int | None = None
    diff: Diff | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: dict[str, Any]


class Read(msgspec.Struct):
    """Read a text file. Long files come in parts: use offset and limit."""

    path: Annotated[str, Meta(description="relative to the worktree")]
    offset: Annotated[int, Meta(ge=1, description="first line, counted from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=_MAX_LINES, description="how many lines")] = _MAX_LINES


class Write(msgspec.Struct):
    """Write a whole file. It is made, with its folders, or replaced."""

    path: Annotated[str, Meta(description="relative to the worktree")]
    content: str


class Edit(msgspec.Struct):
    """Replace text in a file. `old` must be there exactly, and once, unless `all` is true."""

    path: Annotated[str, Meta(description="relative to the worktree")]
    old: Annotated[str, Meta(min_length=1, description="the exact text, with its white space")]
    new: str
    all: Annotated[bool, Meta(description="replace every occurrence")] = False


class Glob(msgspec.Struct):
    """Find files by name, such as `**/*.py` or `src/*.ts`."""

    pattern: str
    path: Annotated[str, Meta(description="the folder to look in")] = "."


class Grep(msgspec.Struct):
    """Find lines by an extended regular expression."""

    pattern: str
    path: Annotated[str, Meta(description="the file or folder to look in")] = "."
    include: Annotated[str | None, Meta(description="only files with such a name, as `*.py`")] = None
    ignore_case: bool = False


class Bash(msgspec.Struct):
    """Run a shell command in the worktree. It has no input, and nothing of it goes on running afterwards."""

    command: str
    timeout: Annotated[float, Meta(gt=0, le=_MAX_SECONDS, description="seconds")] = 120


class PlanStep(msgspec.Struct):
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Plan(msgspec.Struct):
    """Show the user the plan of the work, and how far it is. Give all of it each time."""

    steps: list[PlanStep]


_SHAPES: dict[str, type[msgspec.Struct]] = {
    "read": Read,
    "write": Write,
    "edit": Edit,
    "glob": Glob,
    "grep": Grep,
    "bash": Bash,
    "plan": Plan,
}


def offers() -> list[Offer]:
    return [Offer(name, shape.__doc__ or "", _schema(shape)) for name, shape in _SHAPES.items()]


def _schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    _, components = msgspec.json.schema_components((shape,), ref_template="#/$defs/{name}")
    schema: dict[str, Any] = {**components.pop(shape.__name__)}
    for noise in ("title", "description"):
        schema.pop(noise, None)
    return schema | ({"$defs": components} if components else {})


class Toolbox:
    def __init__(self, worktree: Worktree, shell: Shell) -> None:
        self._worktree = worktree
        self._shell = shell

    def prepare(self, name: str, arguments: object, call: str) -> Prepared:
        """Check a call and say what it would do. Raises Refused, with words for the model."""
        shape = _SHAPES.get(name)
        if shape is None:
            raise Refused(f"there is no tool {name!r}; there are {', '.join(_SHAPES)}")
        try:
            asked = msgspec.convert(arguments, shape, strict=False)
        except msgspec.ValidationError as error:
            raise Refused(f"wrong arguments for {name}: {error}") from None
        match asked:
            case Read():
                return self._read(asked)
            case Write():
                return self._write(asked)
            case Edit():
                return self._edit(asked)
            case Glob():
                return self._glob(asked)
            case Grep():
                return self._grep(asked)
            case Bash():
                return self._bash(asked, call)
            case Plan():
                return _plan(asked)
        raise AssertionError(f"a tool without a hand: {name}")

    def _read(self, asked: Read) -> Prepared:
        real = self._worktree.inside(asked.path)

        async def perform() -> Outcome:
            lines = _text(self._present(asked.path), asked.path).splitlines(keepends=True)
            chosen = lines[asked.offset - 1 : asked.offset - 1 + asked.limit]
            left = len(lines) - (asked.offset - 1 + len(chosen))
            note = f"\n[… {left} more lines; read from offset {asked.offset + len(chosen)}]" if left > 0 else ""
            return Outcome(capped("".join(chosen)) + note)

        return Prepared(f"Read {self._worktree.shown(real)}", "read", perform, path=real, line=asked.offset)

    def _write(self, asked: Write) -> Prepared:
        real = self._worktree.inside(asked.path)
        try:
            old: str | None = _text(self._worktree.read(asked.path), asked.path)
        except (FileNotFoundError, Refused):
            old = None

        async def perform() -> Outcome:
            before = self._worktree.write(asked.path, asked.content.encode())
            return Outcome(f"{'made' if before is None else 'replaced'} {self._worktree.shown(real)}")

        diff = Diff(real, old, asked.content)
        return Prepared(f"Write {self._worktree.shown(real)}", "edit", perform, asks=True, path=real, diff=diff)

    def _edit(self, asked: Edit) -> Prepared:
        real = self._worktree.inside(asked.path)
        old = _text(self._present(asked.path), asked.path)
        new = _replaced(old, asked)

        async def perform() -> Outcome:  # from the file as it is now: it may have waited for a person
            current = _text(self._present(asked.path), asked.path)
            self._worktree.write(asked.path, _replaced(current, asked).encode())
            return Outcome(f"edited {self._worktree.shown(real)}")

        title, line = f"Edit {self._worktree.shown(real)}", old[: old.index(asked.old)].count("\n") + 1
        return Prepared(title, "edit", perform, asks=True, path=real, line=line, diff=Diff(real, old, new))

    def _glob(self, asked: Glob) -> Prepared:
        real = self._worktree.inside(asked.path)
        wanted = _glob_pattern(asked.pattern)

        def find() -> str:
            found: list[str] = []
            walked = 0
            for folder, names in self._worktree.walk(asked.path):
                for name in names:
                    path = self._worktree.shown(f"{folder}/{name}")
                    walked += 1
                    if wanted.fullmatch(path) or wanted.fullmatch(f"{folder}/{name}"[len(real) + 1 :]):
                        found.append(path)
                    if len(found) >= _MAX_FOUND or walked >= _MAX_WALKED:
                        return "\n".join([*found, "[… there may be more; use a narrower pattern]"])
            return "\n".join(found) or "no files found"

        async def perform() -> Outcome:
            return Outcome(await asyncio.to_thread(find))

        return Prepared(f"Glob {asked.pattern}", "search", perform, path=real)

    def _grep(self, asked: Grep) -> Prepared:
        real = self._worktree.inside(asked.path)
        command = ["grep", "-rnIE", "--exclude-dir=.git", *(["-i"] if asked.ignore_case else [])]
        command += [f"--include={asked.include}"] if asked.include else []
        command += ["-e", asked.pattern, "--", self._worktree.shown(real)]

        async def perform() -> Outcome:
            return await _searched(command, self._worktree.root)

        return Prepared(f"Grep {asked.pattern}"[:_TITLE], "search", perform, path=real)

    def _bash(self, asked: Bash, call: str) -> Prepared:
        async def perform() -> Outcome:
            ran = await self._shell.run(asked.command, call, asked.timeout)
            if ran.code is None:
                return Outcome(f"{ran.output}\n[killed: it ran longer than {asked.timeout:g} seconds]", failed=True)
            ending = f"\n[exit code {ran.code}]" if ran.code else ""
            return Outcome((ran.output or "[no output]") + ending, failed=ran.code != 0)

        title = " ".join(asked.command.split())
        return Prepared(f"Run {title}"[:_TITLE], "execute", perform, asks=True)

    def _present(self, path: str) -> bytes:
        try:
            return self._worktree.read(path)
        except FileNotFoundError:
            raise Refused(f"{path} does not exist") from None


def _plan(asked: Plan) -> Prepared:
    steps = tuple(Step(step.content, step.status) for step in asked.steps)

    async def perform() -> Outcome:
        return Outcome("the plan is shown", plan=steps)

    return Prepared("Plan", "think", perform)


async def _searched(command: list[str], folder: str) -> Outcome:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    found = Tail(MAX_TEXT)
    ended = False
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_SEARCH_SECONDS):
            while data := await process.stdout.read(65_536):
                found.add(data)
                if found.dropped:
                    break
            else:
                ended = True
    except TimeoutError:
        return Outcome(f"{found.text()}\n[stopped after {_SEARCH_SECONDS} seconds]", failed=True)
    finally:
        if not ended:
            _kill(process)
        code = await process.wait()
    if code not in (0, 1, -9):
        return Outcome(found.text(), failed=True)
    return Outcome(found.text() or "no lines found")


def _kill(process: asyncio.subprocess.Process) -> None:
    try:  # noqa: SIM105 - it may have ended by itself
        process.kill()
    except ProcessLookupError:
        pass


def _text(data: bytes, path: str) -> str:
    if b"\0" in data[:8192]:
        raise Refused(f"{path} is a binary file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text") from None


def _replaced(text: str, asked: Edit) -> str:
    count = text.count(asked.old)
    if count == 0:
        raise Refused(f"`old` is not in {asked.path}; read the file and give the exact text")
    if count > 1 and not asked.all:
        raise Refused(f"`old` is {count} times in {asked.path}; give more of the text around it, or set `all`")
    return text.replace(asked.old, asked.new)


def _glob_pattern(pattern: str) -> re.Pattern[str]:
    parts = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern.removeprefix("./"))
    return re.compile("".join(parts.get(piece) or re.escape(piece) for piece in pieces))


def capped(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 2]}\n[… {len(text) - MAX_TEXT} characters left out …]\n{text[-MAX_TEXT // 2 :]}"
