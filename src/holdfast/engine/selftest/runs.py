"""What all of it is for: git works here, and a run that is killed again and again comes to its end."""

import asyncio
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from holdfast.agents.playbook.program import STATE
from holdfast.engine.demo import demo as rehearsal
from holdfast.engine.demo.demo import OURSELVES, Play, Stage
from holdfast.engine.selftest.base import Broken, Finding, fails, holds
from holdfast.engine.selftest.folder import home_in
from holdfast.git.process import Git
from holdfast.git.version import NEEDED, installed
from holdfast.leaf.errors import OK, HoldfastError, NothingToDo
from holdfast.leaf.failpoints import FILE, WHAT

_WHO = ("-c", "user.name=Holdfast", "-c", "user.email=selftest@example.org", "-c", "commit.gpgSign=false")
_FILES = {"one.txt": "the first note\n", "two.txt": "the second note\n"}
_TASKS = [{"id": f"T-{number}", "title": f"Write {name}"} for number, name in enumerate(_FILES, 1)]
_NOTES = Play(
    title="Two notes",
    goal="Two notes that survive",
    workflow="solo",
    script={
        "turns": [
            {
                "when": f"worker on task `T-{number}`",
                "steps": [{"write": {"path": name, "text": text}}, {"say": "Written."}],
            }
            for number, (name, text) in enumerate(_FILES.items(), 1)
        ]
    },
    merges=len(_TASKS),
    tasks=_TASKS,
)

# Each round is a run of its own; the runner is killed at each of these in turn, and resumed.
ROUNDS = (
    ("agent.spawn.after:1", "effect.commit.before:1", "journal.append.torn:8", "effect.merge.after:1"),
    ("effect.worktree.make.after:1", "prompt.after:1:everyone", "effect.merge.before:1", "log.repair.before:1"),
    ("validator.run.after:1:group", "effect.snapshot.take.after:1", "effect.branch.delete.before:1"),
)
QUICK = (ROUNDS[0][:2],)


def using_git(folder: str, repositories: str) -> Finding:
    """A repository, a worktree of it here, and a merge of what both did."""
    return asyncio.run(_using_git(os.path.join(folder, "worktree"), os.path.join(repositories, "repository")))


async def _using_git(worktree: str, repo: str) -> Finding:
    try:
        version = await installed()
        if not version.fits:
            return fails(f"{version.said}; {NEEDED}", "install a newer git")
        os.makedirs(repo)
        main, other = Git(repo), Git(worktree)
        await main.do("init", "--quiet", "--initial-branch=main")
        await _committed(main, "one.txt")
        await main.do("worktree", "add", "--quiet", "-b", "side", worktree)
        await _committed(other, "two.txt")
        await _committed(main, "three.txt")
        merged = (await main.do("merge-tree", "--write-tree", "main", "side")).lines[0]
        names = (await main.ask("ls-tree", "--name-only", merged)).lines
        await main.do("worktree", "remove", worktree)
    except HoldfastError as error:
        return fails(str(error), "Holdfast works on git repositories: make git work here first")
    if names != ["one.txt", "three.txt", "two.txt"] or os.path.exists(worktree):
        return fails(f"{version.said} merged to {', '.join(names)}", "make git work here first")
    return holds(f"{version.said.removeprefix('git version ')}: a worktree, commits, a merge")


async def _committed(git: Git, name: str) -> None:
    with open(os.path.join(git.place, name), "w", encoding="utf-8") as file:
        file.write(f"{name}\n")
    await git.do("add", name)
    await git.do(*_WHO, "commit", "--quiet", "--no-verify", "--message", name)


class Trial(NamedTuple):
    """Where runs are killed. `repositories` is where theirs are; `program` is what is called to move them.

    After the moment `enough`, by the monotonic clock, no further run is begun.
    """

    folder: str
    repositories: str
    program: Sequence[str] = OURSELVES
    tell: Callable[[str], None] = lambda _: None
    enough: float = math.inf


def resuming(trial: Trial, rounds: Sequence[Sequence[str]] = ROUNDS) -> Finding:
    """Real runs, whose runner is killed at named points and resumed until they are done. Fewer on a slow machine.

    A run that is cut off by the deadline leaves the whole check in doubt: it may hang in its recovery.
    """
    done, kills = 0, 0
    try:
        for number, dooms in enumerate(rounds, 1):
            if done and time.monotonic() > trial.enough:
                break
            trial.tell(f"run {number} of {len(rounds)}")
            kills += _survived(trial, number, dooms)
            done += 1
    except Broken as error:
        return fails(str(error), "tell us, with `holdfast --version` and the lines above: this must never happen")
    left = f" ({len(rounds) - done} more: no time)" if done < len(rounds) else ""
    return holds(f"runs done: {done}{left}, kills: {kills}; merged once, nothing left over")


def _survived(trial: Trial, number: int, dooms: Iterable[str]) -> int:
    """How often it was killed. Raises `Broken` when it does not end as it would have."""
    folder, home = os.path.join(trial.folder, f"play-{number}"), home_in(trial.folder)
    stage = rehearsal.set_up(folder, _NOTES, os.path.join(trial.repositories, f"notes-{number}"))
    run_id = asyncio.run(rehearsal.prepared(home, stage))
    kills = 0
    for sitting, doom in enumerate((*dooms, None), 1):
        code, said = _sat(trial, run_id, doom, os.path.join(folder, f"passes-{sitting}"))
        if code not in (OK, NothingToDo.exit_code, -signal.SIGKILL):
            raise Broken(f"killed {kills} times, then resume ended with code {code}: {said}")
        if doom is not None and code != -signal.SIGKILL:
            raise Broken(f"it was to be killed at {doom}, and never came there")
        kills += doom is not None
    _must_be_done(home, run_id, stage, kills)
    return kills


def _sat(trial: Trial, run_id: str, doom: str | None, passes: str) -> tuple[int, str]:
    """One sitting, to its end or its death."""
    with open(passes, "wb"):
        environment = {STATE: os.path.join(trial.folder, "memory")}
    if doom is not None:
        environment |= {WHAT: doom, FILE: passes}
    with rehearsal.started(home_in(trial.folder), run_id, trial.program, environment) as runner:
        try:
            _, said = runner.communicate()
        finally:
            runner.kill()
    return runner.returncode, " ".join(said.decode(errors="replace").split())


def _must_be_done(home: str, run_id: str, stage: Stage, kills: int) -> None:
    try:
        proof = asyncio.run(rehearsal.proven(home, run_id, stage))
        files = {name: rehearsal.git(stage.repo, "show", f"holdfast/{run_id}/main:{name}") for name in _FILES}
    except subprocess.CalledProcessError as error:
        raise Broken(f"after {kills} kills the run's branch is not as it should be: {error}") from error
    if not proof.whole:
        raise Broken(f"after {kills} kills the log is not whole")
    if files != _FILES or not proof.holds:
        raise Broken(f"after {kills} kills: merged {proof.merged}, {proof.alive} processes and {proof.branches} left")
