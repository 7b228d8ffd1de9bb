"""Validators at work: real processes in a task's worktree, one after the other, of whom nothing is left.

Each has a time limit, no secrets, and an output of which the beginning and the end are kept. One that fails is run
once more; should it pass then, it is flaky, which is no failure of the work, and is told.
"""

import asyncio
import os
import secrets
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from holdfast.agents.confined import inside, read_start
from holdfast.agents.environment import plain_environment
from holdfast.agents.launch import Launch
from holdfast.agents.tree import Tree, grown
from holdfast.core.settings import Validators
from holdfast.leaf.crashing import around
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.marks import RUN_MARK
from holdfast.leaf.tail import Tail
from holdfast.workflows.validators import READ, Command, Facts, chosen, detect, programs_of_interest

_CRASH = around("validator.run")
OUTPUT = 64 * 1024  # bytes of output that are kept
_TEXT = 1024 * 1024  # bytes of a file that may speak of a validator
_NAMES = 10_000  # of a folder
_FOLDERS = 200
_OWN_PROGRAMS = (".venv/bin", "venv/bin", "node_modules/.bin")  # of the project, below the worktree
_PLAIN = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PYTHONUNBUFFERED": "1",  # what one that hangs has said is not lost
    "PYTHONDONTWRITEBYTECODE": "1",  # nor committed, where the project ignores nothing
}
_PATIENCE = 5.0  # seconds for the end of an output that nobody of the tree can write to any more
_NOT_FOUND = 127  # a shell's code for that


class Outcome(NamedTuple):
    """How a validator ended. `problem` is what there is to say of it: why it failed, or that it is flaky."""

    name: str
    passed: bool
    exit_code: int | None  # a signal's number, negative; None: it never began, or had to be ended
    seconds: float
    output: str = ""
    problem: str | None = None
    flaky: bool = False


def validators_for(worktree: str, settings: Validators) -> tuple[Command, ...]:
    """Those that are configured, and those that the files of the worktree speak of and whose program is here."""
    found = _found(worktree) if settings.detect else ()
    return chosen(found, settings)


def _found(worktree: str) -> tuple[Command, ...]:
    path = _search_path(worktree, os.environ.get("PATH", os.defpath))
    programs = frozenset(name for name in programs_of_interest() if shutil.which(name, path=path))
    names = set(_names_in(worktree, ""))
    for folder in ("tests", "test"):
        if folder in names:
            names |= _names_below(worktree, folder)
    texts = {name: text for name in READ if name in names and (text := _text(worktree, name)) is not None}
    return detect(Facts(frozenset(names), texts, programs))


async def run_validators(
    commands: Sequence[Command],
    cwd: str,
    run_id: str,
    on_done: Callable[[Outcome], Awaitable[None]],
    tether: str | None = None,
) -> list[Outcome]:
    """In order, each alone. `on_done` hears of each as soon as it has ended."""
    if not os.path.isdir(cwd):
        raise BadInput(f"{cwd} is not there, so nothing can be validated in it; `holdfast doctor` looks what is wrong")
    outcomes = []
    for command in commands:
        outcome = await _run(command, cwd, run_id, tether)
        if not outcome.passed and outcome.exit_code is not None:
            again = await _run(command, cwd, run_id, tether)
            if again.passed:
                outcome = _flaky(outcome, again)
        outcomes.append(outcome)
        await on_done(outcome)
    return outcomes


def _flaky(first: Outcome, again: Outcome) -> Outcome:
    """It passes; what it said when it did not is kept."""
    return first._replace(
        passed=True,
        exit_code=again.exit_code,
        seconds=first.seconds + again.seconds,
        problem=f"flaky: {first.problem}, and passed when it was run again",
        flaky=True,
    )


async def _run(command: Command, cwd: str, run_id: str, tether: str | None) -> Outcome:
    given = _environment(command, cwd, run_id)
    program = _program(command.words[0], cwd, given["PATH"])
    if program is None:
        missing = f"{command.words[0]} is not there, or is no program; install it, or set PATH so that it is found"
        return Outcome(command.name, False, None, 0.0, problem=missing)
    mark = f"{run_id}/validator/{secrets.token_hex(6)}"
    launch = Launch((program, *command.words[1:]), cwd, given, mark, tether=tether)
    output = Tail(OUTPUT)
    began = time.monotonic()
    try:
        _CRASH.before()
        async with grown(launch) as tree:
            said = await _death(tree, output, command.limit)
        _CRASH.after()
    except BadInput as error:
        return Outcome(command.name, False, None, 0.0, problem=str(error))
    code = None if said is None else tree.code
    passed = code == 0 or code in command.fine
    return Outcome(command.name, passed, code, time.monotonic() - began, output.text(), _problem(command, code, said))


def _problem(command: Command, code: int | None, said: str | None) -> str | None:
    if said is None:
        return f"it took longer than {command.limit:g} s and was ended"
    if code == _NOT_FOUND:
        return "it exited with code 127: a command in it was not found"
    return None if code == 0 else command.fine.get(code or 0, said)


async def _death(tree: Tree, output: Tail, limit: float) -> str | None:
    """How its root ended; None when we had to end it. What it left running is dead before its output is taken."""
    with suppress(OSError):
        tree.stdin.close()
    reading = asyncio.ensure_future(_read(tree.stdout, output))
    try:
        try:
            async with asyncio.timeout(limit):
                said: str | None = await tree.death()
        except TimeoutError:
            said = None
        await tree.kill()
        await asyncio.wait({reading}, timeout=_PATIENCE)
        return said
    finally:
        reading.cancel()


async def _read(stream: asyncio.StreamReader, output: Tail) -> None:
    while piece := await stream.read(64 * 1024):
        output.add(piece)


def _environment(command: Command, cwd: str, run_id: str) -> dict[str, str]:
    given = {**plain_environment(), **_PLAIN, **command.environment, RUN_MARK: run_id}
    given["PATH"] = _search_path(cwd, given.get("PATH", os.defpath))
    if command.imports:
        folders = [os.path.normpath(os.path.join(cwd, folder)) for folder in command.imports]
        given["PYTHONPATH"] = os.pathsep.join(filter(None, [*folders, given.get("PYTHONPATH")]))
    return given


def _program(word: str, cwd: str, path: str) -> str | None:
    """A path is one in the worktree, wherever we stand ourselves."""
    return shutil.which(os.path.join(cwd, word) if os.sep in word else word, path=path)


def _search_path(worktree: str, path: str) -> str:
    own = (os.path.join(worktree, folder) for folder in _OWN_PROGRAMS)
    return os.pathsep.join([*(folder for folder in own if os.path.isdir(folder)), path])


def _names_below(worktree: str, folder: str) -> set[str]:
    """Two levels of it, as tests are ordered."""
    found = {f"{folder}/{name}" for name in _names_in(worktree, folder)}
    for name in sorted(found)[:_FOLDERS]:
        found |= {f"{name}/{one}" for one in _names_in(worktree, name)}
    return found


def _names_in(worktree: str, folder: str) -> list[str]:
    with suppress(OSError, Denied):
        return sorted(os.listdir(inside(worktree, folder)))[:_NAMES]
    return []


def _text(worktree: str, name: str) -> str | None:
    with suppress(OSError, Denied):
        return read_start(worktree, name, _TEXT)[0].decode("utf-8", "replace")
    return None
