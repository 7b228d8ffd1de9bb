"""Runs: their time over a plain script's, the time from a resume to the first action, and many runs at once.

Everything is real: the program as a user calls it, real repositories, playbook agents as processes.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from bench.figure import Figure, Target, number, spread
from bench.places import ROOT, scratch
from bench.process_tree import own_memory, tree_cpu
from bench.progress import say
from bench.session import command
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.session import SessionStart
from holdfast.engine.commands.create import RunRequest, prepare_run
from holdfast.engine.home import Home
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run

_INSTANT = {
    "otherwise": [
        {"run": {"command": "echo {{cwd}} >> work.txt; basename {{cwd}} | xargs touch", "shown": False}},
        {"say": "Done."},
    ]
}
_BUSY = {
    "otherwise": [
        {
            "repeat": {
                "times": 40,
                "steps": [
                    {"run": {"command": "date +%s%N", "shown": False}},
                    {"tool": {"title": "at {{result}}", "status": "completed"}},
                    {"sleep": 0.25},
                ],
            }
        },
        {"sleep": 600},
    ]
}
_WAIT_S = 1.0
_WAITING: dict[str, Any] = {
    "turns": [
        {
            "when": "You are the evaluator",
            "steps": [{"mcp": {"tool": "submit_verdict", "arguments": {"accept": True}}}, {"say": "Accepted."}],
        }
    ],
    "otherwise": [
        {"run": {"command": "basename {{cwd}} | xargs touch", "shown": False}},
        {"sleep": _WAIT_S},
        {
            "mcp": {
                "tool": "submit_case",
                "arguments": {
                    "summary": "done",
                    "criteria": [{"criterion": "works", "met": True, "evidence": "I looked"}],
                },
            }
        },
        {"say": "Done."},
    ],
}
_TEXT = "x" * 200


def measure(*, quick: bool) -> list[Figure]:
    with scratch() as folder:
        return [
            _orchestration(folder, 5 if quick else 15, 1 if quick else 3),
            _at_once(folder, 8 if quick else 32, 1),
            _busy(folder, 8 if quick else 32),
            _resuming(folder, quick=quick),
            *_crowd(folder, quick=quick),
        ]


# The time of a run over that of a plain script


def _orchestration(folder: str, tasks: int, rounds: int) -> Figure:
    repo, script = new_repository(folder, "cost", with_identity=True), _script(folder, "instant", _INSTANT)
    listed = os.path.join(folder, "tasks.json")
    _write(listed, json.dumps([{"id": f"T-{n}", "title": f"Task {n}"} for n in range(1, tasks + 1)]))
    plain = (sys.executable, os.path.join(ROOT, "bench", "plain_client.py"), repo, f"{folder}/trees", str(tasks))
    ours, scripted = list[float](), list[float]()
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run([*plain, *command(script)], check=True, env=_environment(folder))
        between = time.perf_counter()
        _holdfast(folder, "run", listed, "--repo", repo, "--agent", f"playbook:{script}", "--quiet")
        scripted.append(between - began)
        ours.append(time.perf_counter() - between)
    return Figure(
        name="orchestration",
        what=f"a run of {tasks} tasks, one after the other, from its start to the last merge",
        against="a plain script: the same agents over `json`, and 7 git commands a task",
        spread=spread([whole / other for whole, other in zip(ours, scripted, strict=True)]),
        target=Target("≤", 1.5),
        note=f"{number(spread(ours).median)} s against {number(spread(scripted).median)} s, on the clock",
    )


def _at_once(folder: str, tasks: int, rounds: int) -> Figure:
    """The agents do nothing but wait, so that the tasks can be at work at once on few cores; the rest is Holdfast."""
    repo, script = new_repository(folder, "at-once", with_identity=True), _script(folder, "waiting", _WAITING)
    listed = os.path.join(folder, "at-once.json")
    each = {"acceptance_criteria": ["works"]}
    _write(listed, json.dumps([{"id": f"T-{n}", "title": f"Task {n}", **each} for n in range(1, tasks + 1)]))
    taken: dict[int, list[float]] = {1: [], tasks: []}
    for _ in range(rounds):
        for parallel, times in taken.items():
            began = time.perf_counter()
            options = ("--workflow", "waves", "--parallel", str(parallel), "--agent", f"playbook:{script}", "--quiet")
            _holdfast(folder, "run", listed, "--repo", repo, *options)
            times.append(time.perf_counter() - began)
    return Figure(
        name="at-once",
        what=f"{tasks} tasks at once, each with an agent that works for {_WAIT_S:.0f} s",
        against="one after the other",
        spread=spread([one / all_ for one, all_ in zip(taken[1], taken[tasks], strict=True)]),
        note=f"{number(spread(taken[tasks]).median)} s against {number(spread(taken[1]).median)} s, on the clock",
    )


def _busy(folder: str, tasks: int) -> Figure:
    """The agents are done at once, so what the processors wait for is Holdfast: what it does one after the other."""
    repo = new_repository(folder, "busy", with_identity=True)
    steps = [step for step in _WAITING["otherwise"] if "sleep" not in step]
    script, listed = _script(folder, "busy-at-once", _WAITING | {"otherwise": steps}), os.path.join(folder, "busy.json")
    each = {"acceptance_criteria": ["works"]}
    _write(listed, json.dumps([{"id": f"T-{n}", "title": f"Task {n}", **each} for n in range(1, tasks + 1)]))
    options = ("--workflow", "waves", "--parallel", str(tasks), "--agent", f"playbook:{script}", "--quiet")
    run = (sys.executable, "-m", "holdfast", "run", listed, "--repo", repo, *options)
    began = time.perf_counter()
    used = tree_cpu(run, folder, _environment(folder))
    took = time.perf_counter() - began
    return Figure(
        name="busy",
        what=f"{tasks} tasks at once, each with an agent that is done at once: CPU of all processes",
        against=f"the clock; this machine has {os.cpu_count()} processors",
        spread=spread([used / took]),
        note=f"{number(used)} s of CPU in {number(took)} s",
    )


# From a resume to the first action


def _resuming(folder: str, *, quick: bool) -> Figure:
    small, large = 1_000, 100_000 if quick else 1_000_000
    repo, script = new_repository(folder, "resume"), _script(folder, "instant", _INSTANT)
    runs = {size: asyncio.run(_interrupted(folder, repo, script, size)) for size in (small, large)}
    rounds = 2 if quick else 5
    times: dict[int, list[float]] = {small: [], large: []}
    for _ in range(rounds):
        for size, run_id in runs.items():
            times[size].append(_to_first_action(folder, run_id))
    ratios = [long / short for long, short in zip(times[large], times[small], strict=True)]
    return Figure(
        name="resume",
        what=f"`holdfast resume` of a run with {large:,} events, to its first action",
        against=f"of one with {small:,}",
        spread=spread(ratios),
        target=Target("≤", 2),
        note=f"{number(spread(times[large]).median * 1e3)} ms against {number(spread(times[small]).median * 1e3)} ms",
    )


async def _interrupted(folder: str, repo: str, script: str, events: int) -> str:
    """Create a run that was interrupted after so many messages; return its id."""
    home = os.path.join(folder, "home")
    run_id = await prepare_run(
        Home(home), RunRequest("continue", repo, slug=f"long-{events}", flags={"agent": f"playbook:{script}"})
    )
    async with open_run(FileStore(home), run_id) as run:
        await run.begin_session(SessionStart(command="run"))
        messages = [MessageRecorded(conversation="c", speaker="agent", text=_TEXT)] * 1_000
        for _ in range(events // 1_000):
            await run.append(*messages)
    return run_id


def _to_first_action(folder: str, run_id: str) -> float:
    """Return the time from the call to the first event of the work itself; then kill the runner."""
    began = time.perf_counter()
    with _started(folder, "resume", run_id, "--json", stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        resumed = False
        for line in runner.stdout:
            kind = json.loads(line)["type"]
            if resumed and kind != "agent.spawned":
                break
            resumed = resumed or kind == "run.resumed"
        return time.perf_counter() - began


# Many runs at once


def _crowd(folder: str, *, quick: bool) -> list[Figure]:
    many = 4 if quick else 50
    repo, script = new_repository(folder, "crowd"), _script(folder, "busy", _BUSY)
    home = os.path.join(folder, "home")
    ids = [
        asyncio.run(
            prepare_run(
                Home(home), RunRequest(f"live {n}", repo, slug=f"live-{n}", flags={"agent": f"playbook:{script}"})
            )
        )
        for n in range(many)
    ]
    runners = [_launched(folder, "resume", run_id, "--quiet") for run_id in ids]
    try:
        _wait_for_frames(home, ids, 40)
        sizes = [own_memory(runner.pid) / 1e6 for runner in runners]
    finally:
        for runner in runners:
            runner.send_signal(signal.SIGTERM)
        for runner in runners:
            runner.wait()
    delays = sorted(delay for run_id in ids for delay in _delays(home, run_id))
    p95 = delays[int(len(delays) * 0.95)]
    return [
        Figure(
            name="live",
            what=f"{many} live runs at once: the memory of a runner",
            against="its own (`Pss`), agents not counted",
            spread=spread(sizes),
            unit="MB",
            note=f"{number(sum(sizes))} MB for all of them",
        ),
        Figure(
            name="delay",
            what=f"{many} live runs at once: from an agent's frame to a durable event, p95",
            against="the clock",
            spread=spread([p95 * 1e3]),
            unit="ms",
            note=f"median {number(delays[len(delays) // 2] * 1e3)} ms of {len(delays):,} frames",
        ),
    ]


def _wait_for_frames(home: str, ids: list[str], frames: int) -> None:
    """Wait until every agent has sent all its frames."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if all(_log(home, run_id).count(b'"tool.called"') >= frames for run_id in ids):
            return
        time.sleep(0.5)
    say("some agents did not finish")


def _delays(home: str, run_id: str) -> Iterator[float]:
    for raw in _log(home, run_id).splitlines():
        line = json.loads(raw)
        if line["type"] == "tool.called" and line["data"]["tool"].startswith("at "):
            with suppress(ValueError):
                written = datetime.fromisoformat(line["ts"]).timestamp()
                yield max(0.0, written - int(line["data"]["tool"].split()[1]) / 1e9)


def _log(home: str, run_id: str) -> bytes:
    with open(os.path.join(run_folder(home, run_id), LOG), "rb") as file:
        return file.read()


# Helpers


def new_repository(folder: str, name: str, *, with_identity: bool = False) -> str:
    """With an identity, a plain script can commit there too."""
    repo = os.path.join(folder, name)
    os.makedirs(repo)
    _write(os.path.join(repo, "README.md"), "bench\n")
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", repo, *arguments], check=True)
    if with_identity:
        for setting in identity[1::2]:
            subprocess.run(["git", "-C", repo, "config", *setting.split("=")], check=True)
    return repo


def instant_script(folder: str) -> str:
    """A playbook whose agent changes a file at once."""
    return _script(folder, "instant", _INSTANT)


def _script(folder: str, name: str, script: dict[str, Any]) -> str:
    path = os.path.join(folder, f"{name}.yaml")
    _write(path, json.dumps(script))
    return path


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _environment(folder: str, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "HOLDFAST_HOME": os.path.join(folder, "home"),
        "XDG_CONFIG_HOME": folder,
        "XDG_STATE_HOME": folder,
        **more,
    }


def _holdfast(folder: str, *arguments: str, **more: str) -> None:
    program = [sys.executable, "-m", "holdfast", *arguments]
    subprocess.run(program, check=True, env=_environment(folder, **more), stderr=subprocess.DEVNULL)


def _launched(folder: str, *arguments: str, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.Popen(program, env=_environment(folder), stdout=stdout, stderr=subprocess.DEVNULL)


@contextmanager
def _started(folder: str, *arguments: str, stdout: int) -> "Iterator[subprocess.Popen[bytes]]":
    with _launched(folder, *arguments, stdout=stdout) as runner:
        try:
            yield runner
        finally:
            runner.kill()
