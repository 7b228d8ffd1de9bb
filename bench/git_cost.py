"""What git costs a task: compared with a plain script, and beside a thousand other worktrees.

The run is the real program with a playbook agent. CPU times are those of the kernel (`wait4`), so other work on the
machine counts little. A wrapper in PATH measures each git that Holdfast starts, with the children of that git.
"""

import json
import os
import resource
import shutil
import subprocess
import sys

from bench.figure import Figure, Target, number, spread
from bench.places import scratch

OTHER_WORKTREES = 1_000

_WORK = {"run": {"command": "echo {{cwd}} >> work.txt; basename {{cwd}} | xargs touch", "shown": False}}
_AGENT = {"otherwise": [_WORK, {"say": "done"}]}
_WRAPPER = """#!{python} -IS
import os, sys
child = os.posix_spawn("{git}", ["git", *sys.argv[1:]], os.environ)
_, status, used = os.wait4(child, 0)
with open("{log}", "a") as log:
    log.write(f"{{used.ru_utime + used.ru_stime}}\\n")
os._exit(os.waitstatus_to_exitcode(status) % 256)
"""


def measure(*, quick: bool) -> list[Figure]:
    rounds, tasks = (1, 2) if quick else (5, 8)
    with scratch() as folder:
        return [_against_script(folder, rounds, tasks), _beside_others(folder, rounds, tasks)]


def _against_script(folder: str, rounds: int, tasks: int) -> Figure:
    git, log, bin_folder = shutil.which("git") or "git", os.path.join(folder, "cpu"), os.path.join(folder, "bin")
    os.makedirs(bin_folder)
    wrapper = os.path.join(bin_folder, "git")
    _write(wrapper, _WRAPPER.format(python=sys.executable, git=git, log=log))
    os.chmod(wrapper, 0o755)
    ours, commands, script = list[float](), list[float](), list[float]()
    for round_ in range(rounds):
        script.append(_script(_repository(folder, f"script-{round_}"), tasks) / tasks)
        _write(log, "")
        _run(folder, _repository(folder, f"run-{round_}"), tasks, PATH=f"{bin_folder}:{os.environ['PATH']}")
        with open(log, encoding="ascii") as file:
            used = [float(line) for line in file]
        ours.append(sum(used) / tasks)
        commands.append(len(used) / tasks)
    return Figure(
        name="git-task",
        what="CPU of git a task",
        against="a script of 7 git commands that does the same",
        spread=spread([mine / plain for mine, plain in zip(ours, script, strict=True)]),
        target=Target("≤", 1.8),
        note=f"{_ms(ours)} in {number(spread(commands).median)} commands, against {_ms(script)}",
    )


def _script(repo: str, tasks: int) -> float:
    """Do in each worktree what the agent does, and return the CPU of all git commands."""
    before = _children_cpu()
    for number_ in range(1, tasks + 1):
        tree, branch = os.path.join(f"{repo}-trees", f"T-{number_}"), f"T-{number_}"
        _git(repo, "worktree", "add", "--quiet", "-b", branch, tree)
        _write(os.path.join(tree, branch), "")
        _write(os.path.join(tree, "work.txt"), f"{tree}\n")
        _git(tree, "status", "--porcelain")
        _git(tree, "add", "--all")
        _git(tree, "commit", "--quiet", "--message", branch)
        _git(repo, "merge", "--quiet", "--no-ff", "--no-edit", branch)
        _git(repo, "worktree", "remove", tree)
        _git(repo, "branch", "--quiet", "-d", branch)
    return _children_cpu() - before


def _beside_others(folder: str, rounds: int, tasks: int) -> Figure:
    alone, beside = _repository(folder, "alone"), _repository(folder, "beside")
    _add_worktrees(beside, os.path.join(folder, "others"), OTHER_WORKTREES)
    cpu: dict[str, list[float]] = {alone: [], beside: []}
    for _ in range(rounds):
        for repo, taken in cpu.items():
            before = _children_cpu()
            _run(folder, repo, tasks)
            taken.append((_children_cpu() - before) / tasks)
    return Figure(
        name="other-worktrees",
        what=f"CPU of a task in a repository with {OTHER_WORKTREES:,} other worktrees",
        against="in one without",
        spread=spread([many / none for many, none in zip(cpu[beside], cpu[alone], strict=True)]),
        target=Target("≤", 1.2),
        note=f"{_ms(cpu[beside])} against {_ms(cpu[alone])}, with the agent",
    )


def _add_worktrees(repo: str, folder: str, count: int) -> None:
    """Write what `git worktree add --detach` writes, which takes longer with each one."""
    head = subprocess.run(["git", "-C", repo, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    for number_ in range(count):
        entry = os.path.join(repo, ".git", "worktrees", f"other-{number_}")
        tree = os.path.join(folder, f"other-{number_}")
        os.makedirs(entry)
        os.makedirs(tree)
        files = {"gitdir": f"{tree}/.git\n", "commondir": "../..\n", "HEAD": head}
        for name, content in files.items():
            _write(os.path.join(entry, name), content)
        _write(os.path.join(tree, ".git"), f"gitdir: {entry}\n")


def _run(folder: str, repo: str, tasks: int, **environment: str) -> None:
    agent, listed = os.path.join(folder, "agent.yaml"), os.path.join(folder, "tasks.json")
    _write(agent, json.dumps(_AGENT))
    _write(listed, json.dumps([{"id": f"T-{n}", "title": f"Task {n}"} for n in range(1, tasks + 1)]))
    arguments = ("run", listed, "--repo", repo, "--agent", f"playbook:{agent}", "--quiet")
    home = {"HOLDFAST_HOME": os.path.join(folder, "home"), "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
    subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        check=True,
        env={**os.environ, **home, **environment},
        stderr=subprocess.DEVNULL,
    )


def _repository(folder: str, name: str) -> str:
    repo = os.path.join(folder, name)
    os.makedirs(repo)
    _write(os.path.join(repo, "README.md"), "bench\n")
    _git(repo, "init", "--quiet", "--initial-branch=main")
    _git(repo, "config", "user.name", "Bench")
    _git(repo, "config", "user.email", "bench@example.org")
    _git(repo, "add", "--all")
    _git(repo, "commit", "--quiet", "--message", "Begin")
    return repo


def _git(folder: str, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True, stdout=subprocess.DEVNULL)


def _write(path: str, content: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ms(seconds: list[float]) -> str:
    return f"{number(spread(seconds).median * 1e3)} ms"
