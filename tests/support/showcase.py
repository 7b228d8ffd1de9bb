"""A home with a run in every state that the board shows, made by `holdfast` itself with playbook agents.

The pictures of the page (scripts/screenshots.py) and its browser tests use it.
"""

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.cli_stage import ACCEPT, BLOCKED, SUBMIT
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.wait import PATIENCE

Steps = list[Any]

_MOMENT_S = 0.02
WORKER = "You are the worker"
ASK: Steps = [
    {"say": "I read the handler. The tests need the database, so I start it first."},
    {
        "permission": {
            "title": "Run docker compose up -d db",
            "kind": "execute",
            "input": {"command": "docker compose up -d db"},
            "options": ["allow_once", "allow_always", "reject_once"],
            "allowed": [{"say": "It is up."}],
            "rejected": [{"say": "Then I use SQLite."}],
        }
    },
    {"write": {"path": "answered.txt", "text": "yes\n"}},
]
EDIT: Steps = [
    {
        "permission": {
            "title": "Edit src/limits.py",
            "kind": "edit",
            "locations": ["src/limits.py"],
            "content": [
                {"diff": {"path": "src/limits.py", "old": "LIMIT = 10\nBURST = 2\n", "new": "LIMIT = 100\nBURST = 2\n"}}
            ],
            "options": ["allow_once", "reject_once"],
        }
    }
]
HANG: Steps = [{"say": "Reading the parser…"}, {"hang": {"how": "turn", "seconds": 3600}}]
HELLO: Steps = [{"write": {"path": "hello.txt", "text": "hello\n"}}, {"say": "I wrote **hello.txt**."}]


def hang_once(name: str) -> dict[str, Any]:
    """A step that never ends; an agent that comes to it again goes on. See `Showcase.wait_for_hang`."""
    return {"hang": {"how": "turn", "seconds": 3600, "once": name}}


class Showcase:
    """A folder with a repository, a home, and runs in it."""

    def __init__(self, folder: str | Path, nursery: Nursery | None = None) -> None:
        """With a `nursery`, what is run to its end comes from there."""
        self.folder = Path(folder)
        self.nursery = nursery
        self.home = str(self.folder / "home")
        self.repository = str(self.folder / "shop")
        os.makedirs(self.home)
        Path(f"{self.home}.config.toml").write_text("[validators]\ndetect = false\n", encoding="utf-8")
        os.makedirs(f"{self.repository}/src")
        Path(self.repository, "README.md").write_text("# Shop\n", encoding="utf-8")
        Path(self.repository, "src/limits.py").write_text("LIMIT = 10\nBURST = 2\n", encoding="utf-8")
        for command in ("init -q -b main", "add -A", "-c user.name=Ada -c user.email=ada@example.org commit -qm begin"):
            subprocess.run(["git", "-C", self.repository, *command.split()], check=True)
        for name, value in (("name", "Ada"), ("email", "ada@example.org")):
            subprocess.run(["git", "-C", self.repository, "config", f"user.{name}", value], check=True)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME", "PYTHONPATH") if name in os.environ}
        return {
            **kept,
            "HOLDFAST_HOME": self.home,
            "HOLDFAST_CONFIG": f"{self.home}.config.toml",
            "XDG_STATE_HOME": os.path.join(self.home, "state"),  # as `Server` has it: agents remember there
        }

    def book(self, name: str, *turns: Mapping[str, Any] | Steps, otherwise: Steps | None = None, **more: Any) -> str:
        """Write a script for an agent. Returns the agent's name."""
        path = self.folder / f"{name}.json"
        script = {"turns": list(turns), "otherwise": otherwise if otherwise is not None else [{"say": "fine"}], **more}
        path.write_text(json.dumps(script), encoding="utf-8")
        return f"playbook:{path}"

    def named(self, name: str, *turns: Mapping[str, Any] | Steps, **more: Any) -> str:
        """Write a script for an agent that the user's config file names, so that the page offers it."""
        path = self.book(name, *turns, **more).partition(":")[2]
        command = shlex.join([sys.executable, "-m", "holdfast", "agent", "playbook", path])
        with open(f"{self.home}.config.toml", "a", encoding="utf-8") as config:
            config.write(f"\n[agents.{name}]\ncommand = {json.dumps(command)}\n")
        return name

    def holdfast(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", *arguments]
        if self.nursery is not None and "--detach" not in arguments:
            ended = self.nursery.run(list(arguments), self.repository, self.environment)
            return subprocess.CompletedProcess(command, *ended)
        return subprocess.run(
            command,
            cwd=self.repository,
            env=self.environment,
            text=True,
            capture_output=True,
            check=False,
        )

    def run(self, goal: str, agent: str, *options: str) -> str:
        """Run until the run ends or waits for a person. Returns its id."""
        done = self.holdfast("run", goal, "--agent", agent, *options, "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines, done.stderr
        return str(next(line["run"] for line in reversed(lines) if "run" in line))

    def detach(self, goal: str, agent: str, *options: str) -> str:
        """Start a run that goes on by itself. Returns its id."""
        done = self.holdfast("run", goal, "--agent", agent, *options, "--detach", "--json")
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout.splitlines()[-1])["run"])

    def row(self, run: str) -> dict[str, Any]:
        rows = [json.loads(line) for line in self.holdfast("ls", "--json").stdout.splitlines()]
        return next(row for row in rows if row["id"] == run)

    def wait_for_need(self, run: str) -> None:
        wait_until(lambda: self.row(run)["needs"] > 0)

    def runner_pid(self, run: str) -> int:
        return int(json.loads(self.holdfast("show", run, "--json").stdout)["owner"]["pid"])

    def kill_runner(self, run: str) -> None:
        os.kill(self.runner_pid(run), signal.SIGKILL)
        self.wait_for_end(run)

    def wait_for_end(self, run: str) -> None:
        """Wait until nothing of the run is at work."""
        wait_until(lambda: self.row(run)["status"] != "running")

    def wait_for_hang(self, name: str) -> None:
        """Wait until an agent came to `hang_once`: killed before, it would come to it again after the resume."""
        mark = hashlib.sha256(name.encode()).hexdigest()[:24]
        wait_until(lambda: any(Path(self.home, "state").rglob(f"once/{mark}")))

    def tasks(self, name: str, *titles: str) -> str:
        rows = [
            {"id": f"T-{number}", "title": title, "acceptance_criteria": ["works"]}
            for number, title in enumerate(titles, 1)
        ]
        path = self.folder / name
        path.write_text(json.dumps({"tasks": rows}), encoding="utf-8")
        return str(path)

    def asking(
        self, goal: str = "Add rate limits to the login endpoint", steps: Steps = ASK, name: str = "asking"
    ) -> str:
        """A run whose agent waits for an answer."""
        run = self.detach(goal, self.book(name, {"when": WORKER, "steps": steps}))
        self.wait_for_need(run)
        return run

    def done(self, goal: str) -> str:
        return self.run(goal, self.book("done", {"when": WORKER, "steps": HELLO}))

    def working(self, goal: str) -> str:
        return self.detach(goal, self.book("working", {"when": WORKER, "steps": HANG}))

    def survived(self) -> str:
        """A run of five tasks that was killed at work on the second, and finished."""
        work = [{"sleep": 0.4}, *HELLO, SUBMIT, {"usage": {"used": 1200, "size": 200_000, "cost": 0.02}}]
        book = self.book(
            "survived",
            {"when": "You are the evaluator", "steps": [{"sleep": 0.1}, ACCEPT]},
            {"when": "task `?T-2", "steps": [hang_once("survived"), *work]},
            {"when": WORKER, "steps": work},
        )
        titles = ("Write the greeting", "Test it", "Document it", "Translate it", "Ship it")
        run = self.detach(self.tasks("greeting.json", *titles), book, "--workflow", "loop")
        self.wait_for_hang("survived")
        self.kill_runner(run)
        self.holdfast("resume", run)
        return run

    def all_states(self) -> None:
        """One run of each kind."""
        self.asking()
        self.asking("Raise the limit of the search endpoint\n\nIt is too low for partners.", EDIT, "editing")
        self.working("Make the CSV import ten times faster")
        killed = self.working("Replace the hand-written parser of dates")
        wait_until(lambda: self.row(killed)["events"] > 5)
        self.kill_runner(killed)
        loop = self.book(
            "loop", {"when": "You are the evaluator", "steps": [ACCEPT]}, {"when": WORKER, "steps": [*HELLO, SUBMIT]}
        )
        self.run(self.tasks("plan.json", "Write the greeting", "Test it", "Document it"), loop, "--workflow", "loop")
        blocked = self.book("blocked", {"when": WORKER, "steps": [{"say": "There is no key."}, BLOCKED]})
        self.run("Publish the package to the internal index", blocked)
        for goal in ("Write a greeting", "Fix the flaky test of the queue", "Explain the retry policy in the README"):
            self.done(goal)
        self.detach(
            "How does the cart compute taxes?", self.book("chat", [{"say": "By *region*."}]), "--workflow", "chat"
        )


def wait_until(condition: Callable[[], bool]) -> None:
    """Like `wait.until`, for a thread in which a browser's event loop is already at work."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(_MOMENT_S)


def stop_all(showcase: Showcase) -> None:
    """End every runner that is still there."""
    for line in showcase.holdfast("ls", "--json").stdout.splitlines():
        row = json.loads(line)
        if row["status"] == "running":
            showcase.holdfast("stop", row["id"])
