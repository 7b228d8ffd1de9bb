"""Runs git: without a shell, with a time limit, and with git's own output in errors.

Output goes to memory files, not pipes: a hook that leaves a background process keeps a pipe open, and its reader would
wait for that process. The user's config, hooks and signing apply; where a confined agent works, the programs that git
starts run in the agent's runtime (`Confinement`). Removed from the environment is what would point git at another
repository or change how it reads arguments (`GIT_DIR` and others, inherited when Holdfast runs from a hook), prompt
without a terminal, or run a program from the worktree.
"""

import asyncio
import errno
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from holdfast.git.confinement import PROGRAM_SETTINGS, Confinement, WritableGit
from holdfast.leaf.errors import BadInput, HoldfastError, TimedOut
from holdfast.leaf.process.death import wait_for_exit
from holdfast.leaf.process.environment import INHERITED_GIT_VARIABLES, absolute_path
from holdfast.leaf.process.fd_marker import marker_fds
from holdfast.leaf.process.proc import pids

QUERY_TIMEOUT_S = 60.0  # queries and small changes
MIN_CONFINED_TIMEOUT_S = 600.0  # git may start a filter for each file in the agent's runtime, maybe a container
CHANGE_TIMEOUT_S = 1800.0  # may run the user's hooks, check out a large tree, or use the network

_FSYNC_OPTIONS = ("-c", "core.fsync=committed", "-c", "core.fsyncMethod=fsync")
_NO_FSMONITOR = ("-c", "core.fsmonitor=false")  # else git runs the program that any config names, even a nested one's
_NO_MAINTENANCE_OPTIONS = (
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)  # no background process that would die with us
_WORKTREE_RACE = re.compile(
    r"failed to read .*worktrees/[^/]*/commondir|could not create directory of .*worktrees/.*: No such file"
)
_DAMAGED = re.compile(
    "index file (smaller|corrupt|open failed: No such file)|(bad|broken|unknown) index|not a git repository"
    "|bad (signature|(tree )?object|config line)|object .* is (empty|corrupt)"
)
_DISK_FAILED = os.strerror(errno.EIO)
_RACE_WAIT_S, _RACE_RETRY_DELAY_S = 1.0, 0.05
_FIXED_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
    "LC_ALL": "C.UTF-8",
    "LANGUAGE": "",
}


class GitFailed(HoldfastError):
    """Git exited with an error. `output` is what it printed."""

    def __init__(self, command: str, code: int, output: str, program: str = "git") -> None:
        super().__init__(f"`{program} {command}` failed: {' '.join(output.split()) or f'exit code {code}'}")
        self.code = code
        self.output = output

    @property
    def is_damage(self) -> bool:
        """True when one of git's own files is damaged, as after a power cut: a retry does not help."""
        return _DAMAGED.search(self.output) is not None and _DISK_FAILED not in self.output


class GitKilled(GitFailed):
    """Git was killed: its partial changes and its locks remain."""


class GitRollbackFailed(GitFailed):
    """Git failed, and so did the rollback, as on a full disk: partial changes may remain."""

    def __init__(self, error: HoldfastError) -> None:
        HoldfastError.__init__(self, str(error))
        self.code, self.output = (error.code, error.output) if isinstance(error, GitFailed) else (1, str(error))


class ProgramOutput(NamedTuple):
    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.stdout).removesuffix("\n")

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n") if self.stdout else []

    def fields(self) -> list[str]:
        """Split the output of a `-z` option: names unquoted, with any characters in them."""
        return os.fsdecode(self.stdout).removesuffix("\0").split("\0") if self.stdout else []


class Git:
    """Runs git in one folder. `env_markers` and `fd_marker` identify its processes after our own death.

    The markers are in their environment and a file that they hold open. A process gets its environment only when it
    executes its program, and we may die just before; the open file is there from the fork on.
    """

    def __init__(
        self,
        folder: str,
        *,
        env_markers: Mapping[str, str] | None = None,
        fd_marker: str | None = None,
        stay_in_folder: bool = False,
        confinement: Confinement | None = None,
        runs_hooks: bool = True,
    ) -> None:
        """`stay_in_folder` stops git from searching parent folders for a repository. `runs_hooks` is off for no hooks.

        `confinement` is for a worktree that a confined agent can write to.
        """
        self.folder = folder
        self.confinement = confinement
        self.writable: WritableGit | None = None
        self.fd_marker = fd_marker
        self._env_markers = env_markers
        self._stay_in_folder = stay_in_folder
        self._options = _NO_FSMONITOR if runs_hooks else (*_NO_FSMONITOR, "-c", f"core.hooksPath={os.devnull}")

    @cached_property
    def environment(self) -> dict[str, str]:
        """Return the environment of its processes; most questions are answered from files, without a process."""
        environment = {
            **{name: value for name, value in os.environ.items() if name not in INHERITED_GIT_VARIABLES},
            **_FIXED_ENVIRONMENT,
            **(self._env_markers or {}),
            "PATH": absolute_path(os.environ.get("PATH", os.defpath)),
        }
        if self._stay_in_folder:
            environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(self.folder))
        return environment

    async def query(self, *arguments: str, timeout_s: float = QUERY_TIMEOUT_S) -> ProgramOutput:
        """Run a command that takes no lock and changes nothing. Raises `GitFailed`."""
        return _check_exit_code(
            arguments, await self.run(*arguments, timeout_s=timeout_s, extra_env={"GIT_OPTIONAL_LOCKS": "0"})
        )

    async def execute(
        self,
        *arguments: str,
        timeout_s: float = CHANGE_TIMEOUT_S,
        extra_env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ProgramOutput:
        """Run a command that changes something. Raises `GitFailed`."""
        return _check_exit_code(
            arguments, await self.try_execute(*arguments, timeout_s=timeout_s, extra_env=extra_env, stdin=stdin)
        )

    async def try_execute(
        self,
        *arguments: str,
        timeout_s: float = CHANGE_TIMEOUT_S,
        extra_env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ProgramOutput:
        """Run a command that changes something, whatever its exit code. Commands that write objects sync them."""
        return await self.run(
            *_FSYNC_OPTIONS, *_NO_MAINTENANCE_OPTIONS, *arguments, timeout_s=timeout_s, extra_env=extra_env, stdin=stdin
        )

    async def run(
        self,
        *arguments: str,
        timeout_s: float = CHANGE_TIMEOUT_S,
        extra_env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ProgramOutput:
        """Run a command, whatever its exit code, without syncing. Raises only `GitKilled`."""
        environment = {**self.environment, **(extra_env or {})}
        if self.writable is not None:
            self.writable.must_be_plain()
        if self.confinement is not None:
            self.confinement.prepare()
            timeout_s = max(timeout_s, MIN_CONFINED_TIMEOUT_S)
            environment |= self.confinement.variables(await self.hooks_folder())
            arguments = (*self.confinement.settings(arguments, await self._configured_programs()), *arguments)
        context = ProcessContext(self.folder, environment, self.fd_marker)
        return await self._run((*self._options, *arguments), context, timeout_s, stdin)

    async def run_inside(self, *command: str, extra_env: Mapping[str, str] | None = None) -> ProgramOutput:
        """Run another program in this folder; in the agent's runtime, if there is a confinement."""
        environment = {**self.environment, **(extra_env or {})}
        if self.confinement is not None:
            command, environment = (*self.confinement.prefix, *command), {**environment, **self.confinement.environment}
        return await run_program(*command, context=ProcessContext(self.folder, environment, self.fd_marker))

    def must_be_plain(self) -> None:
        """Raise `Denied` where an agent's link would redirect us: called before files of the repository are read."""
        if self.writable is not None:
            self.writable.must_be_plain()
        if self.confinement is not None and self.confinement.writable is not None:
            self.confinement.writable.must_be_plain(self.confinement.worktree)

    async def hooks_folder(self) -> str:
        """Return the folder of the user's hooks."""
        configured = await self._run_unconfined("config", "--type=path", "core.hooksPath")
        if configured.text:
            folder = self.confinement.worktree if self.confinement is not None else self.folder
            return os.path.join(folder, configured.text)
        command = ("rev-parse", "--path-format=absolute", "--git-path", "hooks")
        return _check_exit_code(command, await self._run_unconfined(*command)).text

    async def _configured_programs(self) -> list[tuple[str, str]]:
        """Return the settings that name programs, with their values."""
        answer = await self._run_unconfined("config", "--null", "--get-regexp", PROGRAM_SETTINGS)
        pairs = (field.partition("\n") for field in answer.fields())
        return [(name, command) for name, _, command in pairs]

    async def _run_unconfined(self, *arguments: str) -> ProgramOutput:
        context = ProcessContext(self.folder, self.environment, self.fd_marker)
        return await self._run((*_NO_FSMONITOR, *arguments), context, QUERY_TIMEOUT_S, b"")

    async def _run(
        self, arguments: tuple[str, ...], context: "ProcessContext", timeout_s: float, stdin: bytes
    ) -> ProgramOutput:
        wait_left_s = _RACE_WAIT_S
        while True:
            answer = await run_program("git", *arguments, context=context, timeout_s=timeout_s, stdin=stdin)
            if wait_left_s <= 0 or not _is_worktree_race(answer):
                return answer
            wait_left_s -= _RACE_RETRY_DELAY_S
            await asyncio.sleep(_RACE_RETRY_DELAY_S)


class ProcessContext(NamedTuple):
    """The folder, environment and marker file of a program."""

    folder: str
    environment: Mapping[str, str]
    fd_marker: str | None = None


async def run_program(
    *command: str, context: ProcessContext, timeout_s: float = CHANGE_TIMEOUT_S, stdin: bytes = b""
) -> ProgramOutput:
    with (
        _memory_file() as stdout_fd,
        _memory_file() as stderr_fd,
        _memory_file(stdin) as stdin_fd,
        marker_fds(context.fd_marker) as inherited_fds,
    ):
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - asyncio starts it the same way, and needs one more thread
                command,
                cwd=context.folder,
                env=context.environment,
                stdin=stdin_fd,
                stdout=stdout_fd,
                stderr=stderr_fd,
                start_new_session=True,
                pass_fds=inherited_fds,
            )
        except FileNotFoundError:
            if os.path.isdir(context.folder):
                raise BadInput(f"{command[0]} was not found; install it, or add its folder to PATH") from None
            raise BadInput(f"{context.folder} does not exist; Holdfast works on git repositories") from None
        except NotADirectoryError:
            raise BadInput(f"{context.folder} is not a folder; Holdfast works on git repositories") from None
        except OSError as error:
            raise HoldfastError(f"could not start `{_format_command(command)[:200]}`: {error.strerror}") from None
        try:
            await asyncio.wait_for(_wait_for_exit(process), timeout_s)
        except TimeoutError:
            raise TimedOut(f"`{_format_command(command)}` took longer than {timeout_s:.0f} s and was killed") from None
        finally:
            if process.returncode is None or process.returncode < 0:
                await asyncio.shield(_kill_session(process))
        if process.returncode < 0:  # it gave no answer: never treat this as a "no"
            reason = f"it was killed by signal {-process.returncode}"
            raise GitKilled(_format_command(command[1:]), process.returncode, reason, program=command[0])
        return ProgramOutput(process.returncode, _read_fd(stdout_fd), _read_fd(stderr_fd).decode(errors="replace"))


async def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Waits on a pidfd, so that no thread has to block."""
    await wait_for_exit(process.pid)
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it is dead
    except ChildProcessError:  # an unknown exit code must not count as success
        process.wait()
        raise HoldfastError(
            "the exit code of git is unknown: the kernel discards exit codes while SIGCHLD is ignored"
        ) from None
    process.wait()


async def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill git and every process in its session: nothing else would end them."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == process.pid:  # a shell's job has its own process group
                os.kill(pid, signal.SIGKILL)
    if process.returncode is None:
        await _wait_for_exit(process)


class _memory_file:  # noqa: N801 - used like a function
    """A file in memory that a process reads or writes."""

    def __init__(self, content: bytes = b"") -> None:
        self._content = content

    def __enter__(self) -> int:
        self._fd = os.memfd_create("git")
        if self._content:
            os.pwrite(self._fd, self._content, 0)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _is_worktree_race(output: ProgramOutput) -> bool:
    """True when another git created a worktree, or removed the last one, and ours failed before it changed anything.

    A creating git opens the entry's file that names the repository before it writes it. A removing git deletes the
    folder of all entries just after ours saw it.
    """
    return bool(output.code) and _WORKTREE_RACE.search(output.stderr) is not None


def _read_fd(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0)


def _check_exit_code(arguments: tuple[str, ...], output: ProgramOutput) -> ProgramOutput:
    if output.code:
        raise GitFailed(_format_command(arguments), output.code, output.stderr or os.fsdecode(output.stdout))
    return output


def _format_command(arguments: tuple[str, ...]) -> str:
    """Return the command in one line as a person would type it, without the `-c` settings that we add."""
    shown = list(arguments)
    while "-c" in shown:
        index = shown.index("-c")
        del shown[index : index + 2]
    return " ".join(" ".join(shown).split())
