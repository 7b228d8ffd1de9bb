"""The end-to-end checks: git works here, and a run that is killed repeatedly still completes."""

import asyncio
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from holdfast.agents.playbook.program import STATE_VARIABLE
from holdfast.engine.commands.demo import demo as rehearsal
from holdfast.engine.commands.demo.demo import HOLDFAST_COMMAND, Demo, DemoFolder
from holdfast.engine.commands.selftest.base import CheckFailed, SelftestFinding, fails, holds
from holdfast.engine.commands.selftest.folder import home_path
from holdfast.engine.home import Home
from holdfast.git.process import Git
from holdfast.git.version import REQUIREMENT, installed_version
from holdfast.leaf.errors import EXIT_OK, HoldfastError, NothingToDo
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE

_GIT_IDENTITY = ("-c", "user.name=Holdfast", "-c", "user.email=selftest@example.org", "-c", "commit.gpgSign=false")
_FILES = {"one.txt": "the first note\n", "two.txt": "the second note\n"}
_TASKS = [{"id": f"T-{number}", "title": f"Write {name}"} for number, name in enumerate(_FILES, 1)]
_NOTES_DEMO = Demo(
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
    expected_merges=len(_TASKS),
    tasks=_TASKS,
)

# Each round is one run. Its runner is killed at each of these points in turn, and resumed.
KILL_ROUNDS = (
    ("agent.spawn.after:1", "effect.commit.before:1", "journal.append.torn:8", "effect.merge.after:1"),
    ("effect.worktree.make.after:1", "prompt.after:1:everyone", "effect.merge.before:1", "log.repair.before:1"),
    ("validator.run.after:1:group", "effect.snapshot.take.after:1", "effect.branch.delete.before:1"),
)
QUICK_KILL_ROUNDS = (KILL_ROUNDS[0][:2],)


def check_git(folder: str, repositories: str) -> SelftestFinding:
    """Check that a repository, a worktree of it here, and a merge of both work."""
    return asyncio.run(_check_git(os.path.join(folder, "worktree"), os.path.join(repositories, "repository")))


async def _check_git(worktree: str, repo: str) -> SelftestFinding:
    try:
        version = await installed_version()
        if not version.is_supported:
            return fails(f"{version.text}; {REQUIREMENT}", "install a newer git")
        os.makedirs(repo)
        main, other = Git(repo), Git(worktree)
        await main.execute("init", "--quiet", "--initial-branch=main")
        await _commit_file(main, "one.txt")
        await main.execute("worktree", "add", "--quiet", "-b", "side", worktree)
        await _commit_file(other, "two.txt")
        await _commit_file(main, "three.txt")
        merged = (await main.execute("merge-tree", "--write-tree", "main", "side")).lines[0]
        names = (await main.query("ls-tree", "--name-only", merged)).lines
        await main.execute("worktree", "remove", worktree)
    except HoldfastError as error:
        return fails(str(error), "Holdfast works on git repositories: make git work here first")
    if names != ["one.txt", "three.txt", "two.txt"] or os.path.exists(worktree):
        return fails(f"{version.text} merged to {', '.join(names)}", "make git work here first")
    return holds(f"{version.text.removeprefix('git version ')}: a worktree, commits, a merge")


async def _commit_file(git: Git, name: str) -> None:
    with open(os.path.join(git.folder, name), "w", encoding="utf-8") as file:
        file.write(f"{name}\n")
    await git.execute("add", name)
    await git.execute(*_GIT_IDENTITY, "commit", "--quiet", "--no-verify", "--message", name)


class ResumeTrial(NamedTuple):
    """Where runs are killed.

    `repositories` is the folder for their repositories; `program` is the command that runs them. After the monotonic
    moment `enough` no further run is started.
    """

    folder: str
    repositories: str
    program: Sequence[str] = HOLDFAST_COMMAND
    report: Callable[[str], None] = lambda _: None
    last_start: float = math.inf


def check_resume(trial: ResumeTrial, rounds: Sequence[Sequence[str]] = KILL_ROUNDS) -> SelftestFinding:
    """Kill the runner of real runs at named points and resume it until they are done. Fewer runs on a slow machine.

    A run that hits the deadline leaves the whole check in doubt: its recovery may hang.
    """
    done, kills = 0, 0
    try:
        for number, dooms in enumerate(rounds, 1):
            if done and time.monotonic() > trial.last_start:
                break
            trial.report(f"run {number} of {len(rounds)}")
            kills += _kill_and_resume(trial, number, dooms)
            done += 1
    except CheckFailed as error:
        return fails(str(error), "tell us, with `holdfast --version` and the lines above: this must never happen")
    left = f" ({len(rounds) - done} more: no time)" if done < len(rounds) else ""
    return holds(f"runs done: {done}{left}, kills: {kills}; merged once, nothing left over")


def _kill_and_resume(trial: ResumeTrial, number: int, kill_points: Iterable[str]) -> int:
    """Return how often the runner was killed. Raises `CheckFailed` if the run does not end as it should."""
    folder, home = os.path.join(trial.folder, f"play-{number}"), Home(home_path(trial.folder))
    stage = rehearsal.create_demo_folder(folder, _NOTES_DEMO, os.path.join(trial.repositories, f"notes-{number}"))
    run_id = asyncio.run(rehearsal.create_demo_run(home, stage))
    kills = 0
    for session, kill_point in enumerate((*kill_points, None), 1):
        code, output = _run_session(trial, run_id, kill_point, os.path.join(folder, f"passes-{session}"))
        if code not in (EXIT_OK, NothingToDo.exit_code, -signal.SIGKILL):
            raise CheckFailed(f"killed {kills} times, then resume ended with code {code}: {output}")
        if kill_point is not None and code != -signal.SIGKILL:
            raise CheckFailed(f"it was to be killed at {kill_point}, and never reached it")
        kills += kill_point is not None
    _check_run_is_done(home, run_id, stage, kills)
    return kills


def _run_session(trial: ResumeTrial, run_id: str, kill_point: str | None, passes_file: str) -> tuple[int, str]:
    """Run one session to its end or its death."""
    with open(passes_file, "wb"):
        environment = {STATE_VARIABLE: os.path.join(trial.folder, "memory")}
    if kill_point is not None:
        environment |= {FAILPOINT_VARIABLE: kill_point, FAILPOINT_FILE_VARIABLE: passes_file}
    with rehearsal.start_runner(Home(home_path(trial.folder)), run_id, trial.program, environment) as runner:
        try:
            _, output = runner.communicate()
        finally:
            runner.kill()
    return runner.returncode, " ".join(output.decode(errors="replace").split())


def _check_run_is_done(home: Home, run_id: str, demo_folder: DemoFolder, kills: int) -> None:
    try:
        proof = asyncio.run(rehearsal.collect_proof(home, run_id, demo_folder))
        files = {name: rehearsal.run_git(demo_folder.repo, "show", f"holdfast/{run_id}/main:{name}") for name in _FILES}
    except subprocess.CalledProcessError as error:
        raise CheckFailed(f"after {kills} kills the run's branch is not as it should be: {error}") from error
    if not proof.whole:
        raise CheckFailed(f"after {kills} kills the log is not whole")
    if files != _FILES or not proof.holds:
        raise CheckFailed(
            f"after {kills} kills: merged {proof.merged}, {proof.processes_left} processes and {proof.branches} left"
        )
