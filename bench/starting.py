"""Start-up: the cost of `holdfast` over the bare interpreter, with a thousand runs.

The commands take turns, each in a new process, spawned as directly as possible: time that the bench adds to both sides
would make the ratio look better.
"""

import os
import subprocess
import sys
import time

from bench.figure import Figure, Target, number, spread
from bench.homes import many_runs, run_name
from bench.places import ROOT
from bench.progress import say

HOLDFAST = os.path.join(os.path.dirname(sys.executable), "holdfast")
RUNS = 1_000
BARE = [sys.executable, "-c", "pass"]
COMMANDS = {
    "help": [HOLDFAST, "--help"],
    "ls": [HOLDFAST, "ls"],
}


def measure(*, quick: bool) -> list[Figure]:
    runs = RUNS // 10 if quick else RUNS
    environment = _environment(many_runs(runs))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "src"], cwd=ROOT, check=True)  # as `make setup` does
    refusals = {name: _refusal(name, environment) for name in COMMANDS}
    working = [name for name in COMMANDS if refusals[name] is None]
    bare: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in working}
    for _ in range(10 if quick else 100):
        bare.append(_timed(BARE, environment))
        for name in working:
            taken[name].append(_timed(COMMANDS[name], environment))
    titles = {"help": "`holdfast --help`", "ls": f"`holdfast ls`, {runs:,} runs at home"}
    return [_figure(name, titles[name], bare, taken.get(name), refusals[name]) for name in COMMANDS]


def _figure(name: str, title: str, bare: list[float], taken: list[float] | None, refusal: str | None) -> Figure:
    note = refusal or ""
    if taken:
        note = f"{number(spread(taken).median * 1e3)} ms against {number(spread(bare).median * 1e3)} ms"
    return Figure(
        name=name,
        what=title,
        against="`python -c pass`, the same interpreter",
        spread=spread([t / b for t, b in zip(taken, bare, strict=True)]) if taken else None,
        target=Target("≤", 3),
        note=note,
    )


def _refusal(name: str, environment: dict[str, str]) -> str | None:
    """Return why a command cannot be measured, or None. The first call also creates the catalog."""
    subprocess.run(COMMANDS[name], env=environment, capture_output=True, check=False)
    done = subprocess.run(COMMANDS[name], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last_line = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        say(f"{name}: exit {done.returncode}: {last_line}")
        return f"exit {done.returncode}: {last_line}"
    if name == "ls" and not any(run_name(n) in done.stdout for n in range(RUNS)):
        return "it lists none of the runs"
    return None


def _timed(command: list[str], environment: dict[str, str]) -> float:
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], command, environment, file_actions=quiet)
    os.waitpid(pid, 0)
    return time.perf_counter() - began


def _environment(home: str) -> dict[str, str]:
    """Return a user's environment, without Python variables of a developer's shell."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"HOLDFAST_HOME": home}
