"""The git program: no shell, a time limit, and its own words when it fails.

Output goes to memory files, not pipes: a hook that leaves something running in the background holds a pipe open,
and whoever reads it would wait for that. The user's config, hooks and signing are as they are for the user; where a
confined agent works, what git would run is started in its runtime (`Confinement`). What is taken away is what would
make git look elsewhere or read our words in another way (`GIT_DIR` and its like, inherited when Holdfast itself is
called from a hook), ask a question that nobody answers, or run a program that lies in the worktree.
"""

import asyncio
import errno
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from holdfast.git.confinement import COMMANDS, Confinement, WritableGit
from holdfast.leaf.errors import BadInput, HoldfastError, TimedOut
from holdfast.leaf.process.death import death_of
from holdfast.leaf.process.environment import MISLEADING, absolute_path
from holdfast.leaf.process.fd_marker import tethered
from holdfast.leaf.process.proc import pids

QUICK = 60.0  # seconds: looking, and small changes
CONFINED = 600.0  # seconds, at the least: a filter is started in the agent's runtime for each file, maybe a container
LONG = 1800.0  # seconds: what may run the user's hooks, check out a large tree, or use the network

_DURABLE = ("-c", "core.fsync=committed", "-c", "core.fsyncMethod=fsync")
_UNWATCHED = ("-c", "core.fsmonitor=false")  # else git runs what a config names, also that of a nested repository
_ALONE = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")  # nothing in the background, to be cut off with us
_OTHERS_WORKTREES = re.compile(
    r"failed to read .*worktrees/[^/]*/commondir|could not create directory of .*worktrees/.*: No such file"
)
_DAMAGED = re.compile(
    "index file (smaller|corrupt|open failed: No such file)|(bad|broken|unknown) index|not a git repository"
    "|bad (signature|(tree )?object|config line)|object .* is (empty|corrupt)"
)
_DISK_FAILED = os.strerror(errno.EIO)
_PATIENCE, _MOMENT = 1.0, 0.05  # seconds
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

    def __init__(self, command: str, code: int, said: str, program: str = "git") -> None:
        super().__init__(f"`{program} {command}` failed: {' '.join(said.split()) or f'exit code {code}'}")
        self.code = code
        self.said = said

    @property
    def is_of_damage(self) -> bool:
        """True when it met a file of its own that is not whole, as a power cut leaves it: no waiting mends that."""
        return _DAMAGED.search(self.said) is not None and _DISK_FAILED not in self.said


class GitKilled(GitFailed):
    """Git was killed in the middle: what it had begun is there, and its locks."""


class LeftHalfDone(GitFailed):
    """It failed, and so did taking it back, as on a full disk: what it had begun may be there."""

    def __init__(self, error: HoldfastError) -> None:
        HoldfastError.__init__(self, str(error))
        self.code, self.said = (error.code, error.said) if isinstance(error, GitFailed) else (1, str(error))


class Answer(NamedTuple):
    code: int
    out: bytes
    said: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.out).removesuffix("\n")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.out else []

    def fields(self) -> list[str]:
        """What a `-z` option gave: names as they are, whatever is in them."""
        return os.fsdecode(self.out).removesuffix("\0").split("\0") if self.out else []


class Git:
    """Git at one place. `mark` and `tether` are what its processes can be found again by, after our own death.

    The mark is in their environment; the tether is a file that they hold open. For a process has its environment only
    once it runs its program, and we may die just before.
    """

    def __init__(
        self,
        place: str,
        *,
        mark: Mapping[str, str] | None = None,
        tether: str | None = None,
        inside: bool = False,
        confinement: Confinement | None = None,
    ) -> None:
        """`inside` keeps it from looking for a repository in the folders above.

        `confinement` is for a worktree that a confined agent can write to.
        """
        self.place = place
        self.confinement = confinement
        self.writable: WritableGit | None = None
        self.tether = tether
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in MISLEADING},
            **_STEADY,
            **(mark or {}),
            "PATH": absolute_path(os.environ.get("PATH", os.defpath)),
        }
        if inside:
            self.environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(place))

    async def ask(self, *arguments: str, limit: float = QUICK) -> Answer:
        """A look that takes no lock and changes nothing. Raises `GitFailed` when git does."""
        return _must_succeed(arguments, await self.run(*arguments, limit=limit, more={"GIT_OPTIONAL_LOCKS": "0"}))

    async def do(
        self, *arguments: str, limit: float = LONG, more: Mapping[str, str] | None = None, given: bytes = b""
    ) -> Answer:
        """A change. Raises `GitFailed` when git does. `given` is what it can read from its input."""
        return _must_succeed(arguments, await self.try_to(*arguments, limit=limit, more=more, given=given))

    async def try_to(
        self, *arguments: str, limit: float = LONG, more: Mapping[str, str] | None = None, given: bytes = b""
    ) -> Answer:
        """A change, whatever git answers. To write objects is one: see `git.lost`."""
        return await self.run(*_DURABLE, *_ALONE, *arguments, limit=limit, more=more, given=given)

    async def run(
        self, *arguments: str, limit: float = LONG, more: Mapping[str, str] | None = None, given: bytes = b""
    ) -> Answer:
        """A look, whatever it answers. Raises `GitFailed` only when git was killed before it did."""
        environment = {**self.environment, **(more or {})}
        if self.writable is not None:
            self.writable.must_be_plain()
        if self.confinement is not None:
            self.confinement.prepare()
            limit = max(limit, CONFINED)
            environment |= self.confinement.variables(await self.hooks_folder())
            arguments = (*self.confinement.settings(arguments, await self._configured()), *arguments)
        return await self._run((*_UNWATCHED, *arguments), Spot(self.place, environment, self.tether), limit, given)

    async def run_inside(self, *command: str, more: Mapping[str, str] | None = None) -> Answer:
        """Run another program at this place: where the agent runs, if that is confined."""
        environment = {**self.environment, **(more or {})}
        if self.confinement is not None:
            command, environment = (*self.confinement.prefix, *command), {**environment, **self.confinement.environment}
        return await run_program(*command, at=Spot(self.place, environment, self.tether))

    async def hooks_folder(self) -> str:
        """Where the user's hooks are."""
        at = Spot(self.place, self.environment, self.tether)
        chosen = await self._run((*_UNWATCHED, "config", "--type=path", "core.hooksPath"), at, QUICK, b"")
        if chosen.text:
            return os.path.join(self.confinement.worktree if self.confinement is not None else self.place, chosen.text)
        looking = (*_UNWATCHED, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
        return _must_succeed(looking, await self._run(looking, at, QUICK, b"")).text

    async def _configured(self) -> list[tuple[str, str]]:
        """The programs that the config names, by their names."""
        looking = (*_UNWATCHED, "config", "--null", "--get-regexp", COMMANDS)
        answer = await self._run(looking, Spot(self.place, self.environment, self.tether), QUICK, b"")
        pairs = (field.partition("\n") for field in answer.fields())
        return [(name, command) for name, _, command in pairs]

    async def _run(self, arguments: tuple[str, ...], at: "Spot", limit: float, given: bytes) -> Answer:
        patience = _PATIENCE
        while True:
            answer = await run_program("git", *arguments, at=at, limit=limit, given=given)
            if patience <= 0 or not _met_others(answer):
                return answer
            patience -= _MOMENT
            await asyncio.sleep(_MOMENT)


class Spot(NamedTuple):
    """Where a program runs, and what it has from us."""

    folder: str
    environment: Mapping[str, str]
    tether: str | None = None


async def run_program(*command: str, at: Spot, limit: float = LONG, given: bytes = b"") -> Answer:
    with _memory() as out, _memory() as said, _memory(given) as read, tethered(at.tether) as held:
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own starts it no otherwise, and costs a thread more
                command,
                cwd=at.folder,
                env=at.environment,
                stdin=read,
                stdout=out,
                stderr=said,
                start_new_session=True,
                pass_fds=held,
            )
        except FileNotFoundError:
            if os.path.isdir(at.folder):
                raise BadInput(f"{command[0]} is not there; install it, or set PATH so that it is found") from None
            raise BadInput(f"{at.folder} is not there; Holdfast works on git repositories") from None
        except NotADirectoryError:
            raise BadInput(f"{at.folder} is not a folder; Holdfast works on git repositories") from None
        except OSError as error:
            raise HoldfastError(f"`{_words(command)[:200]}` could not be started: {error.strerror}") from None
        try:
            await asyncio.wait_for(_death_of(process), limit)
        except TimeoutError:
            raise TimedOut(f"`{_words(command)}` took longer than {limit:.0f} s and was ended") from None
        finally:
            if process.returncode is None or process.returncode < 0:
                await asyncio.shield(_end(process))
        if process.returncode < 0:  # no answer: never to be taken for a no
            told = f"it was ended by signal {-process.returncode}"
            raise GitKilled(_words(command[1:]), process.returncode, told, program=command[0])
        return Answer(process.returncode, _content(out), _content(said).decode(errors="replace"))


async def _death_of(process: subprocess.Popen[bytes]) -> None:
    """Learned from a handle on it, so that no thread has to wait."""
    await death_of(process.pid)
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it is dead
    except ChildProcessError:  # whose code is lost must not count as one that succeeded
        process.wait()
        raise HoldfastError(
            "how git ended was kept from us: children are buried unseen where SIGCHLD is ignored"
        ) from None
    process.wait()


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Git, and all that it started in its session: with nobody to wait for them they would go on."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == process.pid:  # a shell's job has a group of its own
                os.kill(pid, signal.SIGKILL)
    if process.returncode is None:
        await _death_of(process)


class _memory:  # noqa: N801 - used like a function
    """A file in memory, for a process to write to, or to read from."""

    def __init__(self, content: bytes = b"") -> None:
        self._content = content

    def __enter__(self) -> int:
        self._fd = os.memfd_create("git")
        if self._content:
            os.pwrite(self._fd, self._content, 0)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _met_others(answer: Answer) -> bool:
    """Another git was just making a worktree, or removing the last one: ours gave up before it changed anything.

    The one had opened the file in its entry that names the repository, and not written it yet; the other removed the
    folder of all entries when ours had just seen that it is there.
    """
    return bool(answer.code) and _OTHERS_WORKTREES.search(answer.said) is not None


def _content(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0)


def _must_succeed(arguments: tuple[str, ...], answer: Answer) -> Answer:
    if answer.code:
        raise GitFailed(_words(arguments), answer.code, answer.said or os.fsdecode(answer.out))
    return answer


def _words(arguments: tuple[str, ...]) -> str:
    """The command as a person would type it, in one line: without the settings that we add."""
    words = list(arguments)
    while "-c" in words:
        at = words.index("-c")
        del words[at : at + 2]
    return " ".join(" ".join(words).split())
