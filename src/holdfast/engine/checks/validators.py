"""Runs validators: real processes in a task's worktree, one at a time, and none outlives its check.

They execute what an agent wrote, so they run in that agent's runtime: see `RoleRuntime`. Each has a time limit, no
secrets, and bounded output that keeps beginning and end. One that fails is run again. If it passes then, it is flaky:
that is reported, but is not a failure of the work.
"""

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from msgspec import structs

from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch
from holdfast.agents.process.tree import ProcessTree, spawn
from holdfast.core.config.settings import Validators
from holdfast.engine.config.run_config import RoleRuntime
from holdfast.engine.containers import record_engine
from holdfast.engine.workspace.workspace import Workspace
from holdfast.leaf.errors import BadInput, Denied, HoldfastError
from holdfast.leaf.failpoints import FailpointPair, failpoint_pair
from holdfast.leaf.files.contained import read_prefix, resolve_inside
from holdfast.leaf.process.env_markers import RUN_MARK
from holdfast.leaf.process.own_program import without_own_environment, without_own_programs
from holdfast.leaf.text.tail import BoundedOutput
from holdfast.workflows.validators import (
    CONFIG_FILES,
    CheckCommand,
    ProjectFacts,
    choose_commands,
    detect_commands,
    relevant_programs,
)

_FAILPOINT = failpoint_pair("validator.run")
MAX_OUTPUT_BYTES = 64 * 1024  # of output that are kept
_MAX_FILE_BYTES = 1024 * 1024  # of a file that may name a validator
_MAX_NAMES = 10_000  # in a folder
_MAX_FOLDERS = 200
_PROJECT_PROGRAM_DIRS = (".venv/bin", "venv/bin", "node_modules/.bin")  # of the project, relative to the worktree
_PLAIN_ENVIRONMENT = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PYTHONUNBUFFERED": "1",  # keeps the output of one that hangs
    "PYTHONDONTWRITEBYTECODE": "1",  # keeps caches out of projects without ignore rules
}
_OUTPUT_WAIT_S = 5.0  # for the end of an output after all its writers are dead
_LIST_TIMEOUT_S = 120.0  # to list the programs of an image
_LIST_SCRIPT = 'for name do command -v "$name" >/dev/null && echo "$name"; done; true'
_EXIT_NOT_FOUND = 127  # a shell's code for that


class ValidatorOutcome(NamedTuple):
    """How a validator ended. `problem` says why it failed, or that it is flaky."""

    name: str
    passed: bool
    exit_code: int | None  # negative for a signal; None if it did not start or was killed
    seconds: float
    output: str = ""
    problem: str | None = None
    flaky: bool = False


class CheckPlace(NamedTuple):
    """Where checks run: the worktree, and the runtime of the role whose agent wrote it.

    `folder` is the run's own, for the record of the container engine.
    """

    cwd: str
    run_id: str
    role: RoleRuntime = RoleRuntime()
    fd_marker: str | None = None
    folder: str | None = None

    @classmethod
    def of(cls, workspace: Workspace, task: str | None, role: RoleRuntime) -> "CheckPlace":
        fd_marker, folder = workspace.repository.fd_marker, workspace.effects.folder
        return cls(workspace.worktree(task).path, workspace.run_id, role, fd_marker, folder)

    def with_readable(self, path: str) -> "CheckPlace":
        """Return the same place with one more readable path."""
        runtime = self.role.runtime
        more = structs.replace(runtime, readable=(*runtime.readable, path))
        return self._replace(role=self.role._replace(runtime=more))

    @property
    def is_container(self) -> bool:
        return self.role.runtime.kind == "container"

    def launch(self, command: Sequence[str], environment: Mapping[str, str]) -> Launch:
        mark = f"{self.run_id}/validator/{secrets.token_hex(6)}"
        given = {**environment, RUN_MARK: self.run_id}
        return Launch(tuple(command), self.cwd, given, mark, fd_marker=self.fd_marker, runtime=self.role.runtime)


async def validators_for(place: CheckPlace, settings: Validators) -> tuple[CheckCommand, ...]:
    """Return the configured validators, or those that the worktree's files name and whose program exists."""
    found = _detect_validators(place.cwd, await _available_programs(place)) if settings.detect else ()
    return choose_commands(found, settings)


async def _available_programs(place: CheckPlace) -> frozenset[str]:
    """Return the programs that a check could call, on this machine or in the image."""
    names = sorted(relevant_programs())
    if not place.is_container:
        path = _search_path(place.cwd, without_own_programs(os.environ.get("PATH", os.defpath)))
        return frozenset(name for name in names if shutil.which(name, path=path))
    output = BoundedOutput(MAX_OUTPUT_BYTES)
    async with _start(
        place, place.launch(_container_command(place.cwd, ("/bin/sh", "-c", _LIST_SCRIPT, "sh", *names)), {})
    ) as tree:
        ending = await _wait_for_exit(tree, output, _LIST_TIMEOUT_S)
    if ending is None or tree.exit_code:
        raise HoldfastError(
            f"which programs the image {place.role.runtime.image} has is unknown ({ending or 'too slow'}): "
            f"{' '.join(output.text().split())}; the checks run there and need /bin/sh, as the agent's terminals do"
        )
    return frozenset(output.text().split()) & relevant_programs()


def _detect_validators(worktree: str, programs: frozenset[str]) -> tuple[CheckCommand, ...]:
    names = set(_names_in(worktree, ""))
    for folder in ("tests", "test"):
        if folder in names:
            names |= _names_below(worktree, folder)
    texts = {name: text for name in CONFIG_FILES if name in names and (text := _read_text(worktree, name)) is not None}
    return detect_commands(ProjectFacts(frozenset(names), texts, programs))


async def run_validators(
    commands: Sequence[CheckCommand],
    place: CheckPlace,
    on_done: Callable[[ValidatorOutcome], Awaitable[None]],
    *,
    failpoint: FailpointPair = _FAILPOINT,
) -> list[ValidatorOutcome]:
    """Run the validators in order. `on_done` is called after each."""
    if not os.path.isdir(place.cwd):
        raise BadInput(f"{place.cwd} is not there, so nothing can be validated in it; `holdfast doctor` finds out why")
    outcomes = []
    for command in commands:
        outcome = await _run_validator(command, place, failpoint)
        if not outcome.passed and outcome.exit_code is not None:
            second = await _run_validator(command, place, failpoint)
            if second.passed:
                outcome = _as_flaky(outcome, second)
        outcomes.append(outcome)
        await on_done(outcome)
    return outcomes


def _as_flaky(first: ValidatorOutcome, second: ValidatorOutcome) -> ValidatorOutcome:
    """It passes; the output of the failure is kept."""
    return first._replace(
        passed=True,
        exit_code=second.exit_code,
        seconds=first.seconds + second.seconds,
        problem=f"flaky: {first.problem}, and passed when it was run again",
        flaky=True,
    )


async def _run_validator(command: CheckCommand, place: CheckPlace, failpoint: FailpointPair) -> ValidatorOutcome:
    started = time.monotonic()
    try:
        launch = _launch(command, place)
        failpoint.before()
        ended = await _run_launch(launch, place, command.limit)
        failpoint.after()
    except BadInput as error:
        return ValidatorOutcome(command.name, False, None, 0.0, problem=str(error))
    passed = ended.code == 0 or ended.code in command.fine
    problem = describe_problem(command, ended)
    return ValidatorOutcome(command.name, passed, ended.code, time.monotonic() - started, ended.output, problem)


class ProcessEnd(NamedTuple):
    """`how` and `code` are None if the time limit ended it."""

    code: int | None
    how: str | None
    output: str


async def run_in_place(command: CheckCommand, place: CheckPlace, stdin: bytes = b"") -> ProcessEnd:
    """Run a command like a check. Raises `BadInput` if it cannot be started."""
    return await _run_launch(_launch(command, place), place, command.limit, stdin)


def _launch(command: CheckCommand, place: CheckPlace) -> Launch:
    given = _environment(command, place)
    if place.is_container:  # the image has its own programs
        return place.launch(_container_command(place.cwd, command.words), given)
    program = _find_program(command.words[0], place.cwd, given["PATH"])
    if program is None:
        raise BadInput(f"{command.words[0]} is not an executable program; install it, or add it to PATH")
    return place.launch((program, *command.words[1:]), given)


async def _run_launch(launch: Launch, place: CheckPlace, limit: float, stdin: bytes = b"") -> ProcessEnd:
    output = BoundedOutput(MAX_OUTPUT_BYTES)
    async with _start(place, launch) as tree:
        how = await _wait_for_exit(tree, output, limit, stdin)
    return ProcessEnd(None if how is None else tree.exit_code, how, output.text())


@asynccontextmanager
async def _start(place: CheckPlace, launch: Launch) -> AsyncIterator[ProcessTree]:
    """Record the container engine first: a container outlives us."""
    if place.folder is not None:
        record_engine(place.folder, launch.runtime)
    async with spawn(launch) as tree:
        yield tree


def describe_problem(command: CheckCommand, ended: ProcessEnd) -> str | None:
    """Why a command did not succeed; None if it did."""
    if ended.how is None:
        return f"it took longer than {command.limit:g} s and was killed"
    if ended.code == _EXIT_NOT_FOUND:
        return "it exited with code 127: a command in it was not found"
    return None if ended.code == 0 else command.fine.get(ended.code or 0, ended.how)


async def _wait_for_exit(tree: ProcessTree, output: BoundedOutput, timeout_s: float, stdin: bytes = b"") -> str | None:
    """Return how its root process ended; None if we killed it. Its children are dead before the output is read."""
    with suppress(OSError):
        tree.stdin.write(stdin)
        tree.stdin.close()  # once everything is written
    reading = asyncio.ensure_future(_read_output(tree.stdout, output))
    try:
        try:
            async with asyncio.timeout(timeout_s):
                ending: str | None = await tree.wait_for_exit()
        except TimeoutError:
            ending = None
        await tree.kill()
        await asyncio.wait({reading}, timeout=_OUTPUT_WAIT_S)
        return ending
    finally:
        reading.cancel()


async def _read_output(stream: asyncio.StreamReader, output: BoundedOutput) -> None:
    while piece := await stream.read(64 * 1024):
        output.add(piece)


def _environment(command: CheckCommand, place: CheckPlace) -> dict[str, str]:
    """No secrets; in a container none of this machine's variables, which do not suit the image's programs."""
    ours = {} if place.is_container else without_own_environment(plain_environment())
    given = {**ours, **place.role.environment, **_PLAIN_ENVIRONMENT, **command.environment}
    if not place.is_container:
        given["PATH"] = _search_path(place.cwd, given.get("PATH", os.defpath))
    if command.imports:
        folders = [os.path.normpath(os.path.join(place.cwd, folder)) for folder in command.imports]
        given["PYTHONPATH"] = os.pathsep.join(filter(None, [*folders, given.get("PYTHONPATH")]))
    return given


def _container_command(cwd: str, command: Sequence[str]) -> tuple[str, ...]:
    """In a container, the project's own programs take precedence over the image's."""
    own = os.pathsep.join(os.path.join(cwd, folder) for folder in _PROJECT_PROGRAM_DIRS)
    first = os.path.join(cwd, command[0]) if os.sep in command[0] else command[0]
    return ("/bin/sh", "-c", 'PATH="$0:$PATH"; exec "$@"', own, first, *command[1:])


def _find_program(program: str, cwd: str, path: str) -> str | None:
    """A relative path is relative to the worktree, whatever our current folder."""
    return shutil.which(os.path.join(cwd, program) if os.sep in program else program, path=path)


def _search_path(worktree: str, path: str) -> str:
    own = (os.path.join(worktree, folder) for folder in _PROJECT_PROGRAM_DIRS)
    return os.pathsep.join([*(folder for folder in own if os.path.isdir(folder)), path])


def _names_below(worktree: str, folder: str) -> set[str]:
    """Return the names in two levels of folders, a common layout of tests."""
    found = {f"{folder}/{name}" for name in _names_in(worktree, folder)}
    for name in sorted(found)[:_MAX_FOLDERS]:
        found |= {f"{name}/{entry}" for entry in _names_in(worktree, name)}
    return found


def _names_in(worktree: str, folder: str) -> list[str]:
    with suppress(OSError, Denied):
        return sorted(os.listdir(resolve_inside(worktree, folder)))[:_MAX_NAMES]
    return []


def _read_text(worktree: str, name: str) -> str | None:
    with suppress(OSError, Denied):
        return read_prefix(worktree, name, _MAX_FILE_BYTES)[0].decode("utf-8", "replace")
    return None
