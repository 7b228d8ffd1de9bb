"""Repositories: the cost of a snapshot compared with `git status`, and of many worktrees when a run is opened."""

import asyncio
import json
import os
import subprocess
import time

from bench.figure import Figure, Target, number, spread
from bench.places import scratch
from holdfast.engine.home import Home
from holdfast.engine.workspace.reconcile import reconcile_workspace
from holdfast.engine.workspace.workspace import NewRun, create_run, open_workspace
from holdfast.git.repository import Repository
from holdfast.git.snapshot import take_snapshot
from holdfast.git.worktrees.worktree import Worktree

FILES = 10_000
FEW, MANY = 10, 50
BRANCH = "holdfast/bench/main"


def measure(*, quick: bool) -> list[Figure]:
    with scratch() as folder:
        return asyncio.run(_measure(folder, quick=quick))


async def _measure(folder: str, *, quick: bool) -> list[Figure]:
    files = FILES // 10 if quick else FILES
    repo = _repository(os.path.join(folder, "large"), files)
    worktree = Worktree(Repository(os.path.join(repo, ".git")), os.path.join(folder, "tree"), BRANCH)
    _git(repo, "worktree", "add", "-q", "-b", BRANCH, worktree.path)
    return [
        *await _snapshots(worktree, files, rounds=5 if quick else 40),
        *await _worktrees(folder, rounds=2 if quick else 8),
    ]


async def _snapshots(worktree: Worktree, files: int, rounds: int) -> list[Figure]:
    clean = await _taken(worktree, rounds)
    with open(os.path.join(worktree.path, "d0", "f0"), "a", encoding="utf-8") as file:
        file.write("one more line\n")
    dirty = await _taken(worktree, rounds)
    what = f"snapshot of a worktree of {files:,} files"
    return [
        _snapshot_figure("snapshot", f"{what}, clean", clean, Target("≤", 1.5)),
        _snapshot_figure("snapshot-dirty", f"{what}, one of them changed", dirty, None),
    ]


async def _taken(worktree: Worktree, rounds: int) -> list[tuple[float, float]]:
    taken = []
    for number_ in range(rounds + 3):
        status = _timed_status(worktree.path)
        began = time.perf_counter()
        await take_snapshot(worktree, f"refs/holdfast/snapshot/bench/{number_}", "Bench")
        taken.append((status, time.perf_counter() - began))
    return taken[3:]  # without the warm-up


def _timed_status(path: str) -> float:
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    began = time.perf_counter()
    os.waitpid(os.posix_spawnp("git", ["git", "-C", path, "status"], os.environ, file_actions=quiet), 0)
    return time.perf_counter() - began


def _snapshot_figure(name: str, what: str, taken: list[tuple[float, float]], target: Target | None) -> Figure:
    return Figure(
        name=name,
        what=what,
        against="`git status` there",
        spread=spread([ours / status for status, ours in taken]),
        target=target,
        note=f"{_ms([ours for _, ours in taken])} against {_ms([status for status, _ in taken])}",
    )


async def _worktrees(folder: str, rounds: int) -> list[Figure]:
    runs = {count: await _run_with(os.path.join(folder, f"home-{count}"), folder, count) for count in (FEW, MANY)}
    taken: dict[int, list[float]] = {count: [] for count in runs}
    for _ in range(rounds):
        for count, (home, run_id) in runs.items():
            began = time.perf_counter()
            await _open(home, run_id)
            taken[count].append(time.perf_counter() - began)
    processes = {count: await _processes(*run, folder) for count, run in runs.items()}
    return [
        Figure(
            name="worktrees",
            what=f"open and reconcile a run with {MANY} worktrees",
            against=f"with {FEW}",
            spread=spread([many / few for many, few in zip(taken[MANY], taken[FEW], strict=True)]),
            target=Target("≤", MANY / FEW),
            note=f"{_ms(taken[MANY])}, {processes[MANY]} git processes, against {_ms(taken[FEW])}, {processes[FEW]}",
        )
    ]


async def _run_with(home: str, folder: str, tasks: int) -> tuple[str, str]:
    repo = _repository(os.path.join(folder, f"repo-{tasks}"), 100)
    run_id = await create_run(Home(home), NewRun("Many worktrees", repo))
    async with open_workspace(Home(home), run_id, "run") as workspace:
        for number_ in range(tasks):
            worktree = await workspace.open_worktree(f"T-{number_}")
            with open(os.path.join(worktree.path, f"new-{number_}"), "w", encoding="utf-8") as file:
                file.write("work\n")
    return home, run_id


async def _open(home: str, run_id: str) -> None:
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        await reconcile_workspace(workspace)


async def _processes(home: str, run_id: str, folder: str) -> int:
    """Return how many git processes an opening starts, by git's trace."""
    trace = os.path.join(folder, f"trace-{run_id}")
    os.environ["GIT_TRACE2_EVENT"] = trace
    try:
        await _open(home, run_id)
    finally:
        del os.environ["GIT_TRACE2_EVENT"]
    if not os.path.exists(trace):
        return 0
    with open(trace, encoding="utf-8") as file:
        return sum(json.loads(line)["event"] == "start" for line in file)


def _repository(path: str, files: int) -> str:
    for number_ in range(files):
        name = os.path.join(path, f"d{number_ // 100}", f"f{number_}")
        os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "w", encoding="utf-8") as file:
            file.write(f"file {number_}\n" * 20)
    _git(path, "init", "-q", "-b", "main")
    _git(path, "add", "-A")
    _git(path, "-c", "user.name=Bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "Begin")
    return path


def _git(path: str, *arguments: str) -> None:
    subprocess.run(["git", "-C", path, *arguments], check=True)


def _ms(seconds: list[float]) -> str:
    return f"{number(spread(seconds).median * 1e3)} ms"
