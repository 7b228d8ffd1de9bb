"""The git program: no shell, a time limit, and its own words when it fails.

Output goes to memory files, not pipes: a hook that leaves something running in the background holds a pipe open,
and whoever reads it would wait for that. The user's config, hooks and signing are as they are for the user. What
is taken away is what would make git look elsewhere (`GIT_DIR` and its like, inherited when Holdfast itself is
called from a hook) or ask a question that nobody answers.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from holdfast.leaf.errors import BadInput, HoldfastError, TimedOut

QUICK = 60.0  # seconds: looking, and small changes
LONG = 1800.0  # seconds: what may run the user's hooks, check out a large tree, or use the network

_DURABLE = ("-c", "core.fsync=committed", "-c", "core.fsyncMethod=fsync")
_MISLEADING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)
_STEADY = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "",
}


class GitFailed(HoldfastError):
    """Git said no. `said` is what it said."""

    def __init__(self, command: str, code: int, said: str) -> None:
        super().__init__(f"`git {command}` failed: {' '.join(said.split()) or f'exit code {code}'}")
        self.code = code
        self.said = said


class Answer(NamedTuple):
    code: int
    out: bytes
    said: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out).removesuffix("\n")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def fields(self) -> list[str]:
        """What a `-z` option gave: names as they are, whatever is in them."""
        return os.fsdecode(self.out).removesuffix("\0").split("\0") if self.out else []


class Git:
    """Git at one place. `mark` is what its processes can be found again by, after our own death."""

    def __init__(self, place: str, *, mark: Mapping[str, str] | None = None, inside: bool = False) -> None:
        """`inside` keeps it from looking for a repository in the folders above."""
        self.place = place
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in _MISLEADING},
            **_STEADY,
            **(mark or {}),
        }
        if inside:
            self._environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(place))

    async def ask(self, *arguments: str, limit: float = QUICK) -> Answer:
        """A look that takes no lock and changes nothing. Raises `GitFailed` when git does."""
        return _must_succeed(arguments, await self.run(*arguments, limit=limit, more={"GIT_OPTIONAL_LOCKS": "0"}))

    async def do(
        self, *arguments: str, limit: float = LONG, stdin: bytes = b"", more: Mapping[str, str] | None = None
    ) -> Answer:
        """A change. Raises `GitFailed` when git does."""
        return _must_succeed(arguments, await self.run(*_DURABLE, *arguments, limit=limit, stdin=stdin, more=more))

    async def run(
        self, *arguments: str, limit: float = LONG, stdin: bytes = b"", more: Mapping[str, str] | None = None
    ) -> Answer:
        """Whatever it answers, with its exit code."""
        with _memory(stdin) as given, _memory() as out, _memory() as said:
            try:
                process = await asyncio.create_subprocess_exec(
                    "git",
                    *arguments,
                    cwd=self.place,
                    env={**self._environment, **(more or {})},
                    stdin=given,
                    stdout=out,
                    stderr=said,
                    start_new_session=True,
                )
            except FileNotFoundError:
                missing = "git" if os.path.isdir(self.place) else self.place
                raise BadInput(f"{missing} is not there; Holdfast works on git repositories") from None
            try:
                code = await asyncio.wait_for(process.wait(), limit)
            except TimeoutError:
                raise TimedOut(f"`git {_words(arguments)}` took longer than {limit:.0f} s and was ended") from None
            finally:
                if process.returncode is None:
                    await _end(process)
            return Answer(code, _content(out), _content(said).decode(errors="replace"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Git and all that it started in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.shield(process.wait())


class _memory:  # noqa: N801 - used like a function
    """A file in memory, for a process to read from or write to."""

    def __init__(self, content: bytes = b"") -> None:
        self._content = content

    def __enter__(self) -> int:
        self._fd = os.memfd_create("git")
        os.write(self._fd, self._content)
        os.lseek(self._fd, 0, os.SEEK_SET)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _content(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0)


def _must_succeed(arguments: tuple[str, ...], answer: Answer) -> Answer:
    if answer.code:
        raise GitFailed(_words(arguments), answer.code, answer.said or os.fsdecode(answer.out))
    return answer


def _words(arguments: tuple[str, ...]) -> str:
    return " ".join(argument for argument in arguments if not argument.startswith("core.fsync") and argument != "-c")
