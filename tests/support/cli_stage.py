"""A repository, a home and a playbook agent: a whole run, as a user would start it."""

import asyncio
import json
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.core.work.names import worktree_names
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.postgres.store import PostgresStore
from tests.cli.program import Outcome, Program, finished
from tests.support.crash_suite.warm_programs import Nursery
from tests.support.logs import whole
from tests.support.projects import Project
from tests.support.wait import PATIENCE, until

Turns = Sequence[Mapping[str, Any]]
Event = dict[str, Any]


CASE = {"summary": "made it", "criteria": [{"criterion": "works", "met": True, "evidence": "I looked"}]}
SUBMIT = {"mcp": {"tool": "submit_case", "arguments": CASE}}
BLOCKED = {"mcp": {"tool": "report_blocker", "arguments": {"reason": "no key", "needed": "a key"}}}
ACCEPT = {"mcp": {"tool": "submit_verdict", "arguments": {"accept": True}}}
REJECT = {
    "accept": False,
    "category": "weak_test",
    "concern": "It proves nothing.",
    "evidence": "assert True",
    "next_step": "Test the refusal.",
}

EVALUATE = {"when": "You are the evaluator", "steps": [ACCEPT]}
HANG = {"hang": {"how": "turn", "seconds": 3600, "once": True}}
HELLO = {"when": "You are the worker", "steps": [{"write": {"path": "hello.txt", "text": "hello\n"}}, {"say": "done"}]}


def worker(*steps: Mapping[str, Any], task: str = "") -> dict[str, Any]:
    """What a worker does that is told to begin (on this task)."""
    return {"when": f"You are the worker on task `?{task}", "steps": list(steps)}


class Stage:
    """Runs are started in the user's checkout, which nobody else should touch."""

    def __init__(self, program: Program, project: Project, folder: str, nursery: Nursery | None = None) -> None:
        self.holdfast = Program(program.home, project.path, nursery, program.store)
        self.project = project
        self.folder = folder
        self.home = program.home

    def book(self, *turns: Mapping[str, Any], name: str = "book", **more: Any) -> str:
        """Have an agent play these turns. Returns its name."""
        path = os.path.join(self.folder, f"{name}.json")
        Path(path).write_text(json.dumps({"turns": turns, "otherwise": [{"say": "fine"}], **more}), encoding="utf-8")
        return f"playbook:{path}"

    def tasks(self, *tasks: Mapping[str, Any] | str, name: str = "plan.json") -> str:
        """A task list; a name alone is a task that can be done."""
        path = os.path.join(self.folder, name)
        rows = [_task(one) if isinstance(one, str) else {**_task(one["id"]), **one} for one in tasks]
        Path(path).write_text(json.dumps({"tasks": rows}), encoding="utf-8")
        return path

    # What users do

    def start(self, *arguments: str, **how: Any) -> subprocess.Popen[bytes]:
        return self.holdfast.start(*arguments, "--json", **how)

    def hangs(self) -> None:
        """Wait until its agent came to `HANG`: killed before, it would come to it again after the resume."""
        asyncio.run(until(self.has_hung))

    def has_hung(self) -> bool:
        return any(Path(self.folder).rglob("once/*"))

    def run(self, *arguments: str, code: int = 0, **how: Any) -> str:
        """A run to its end. Returns its id."""
        return str(self.ended("run", *arguments, code=code, **how)["run"])

    def resume(self, *arguments: str, code: int = 0, **how: Any) -> Event:
        return self.ended("resume", *arguments, code=code, **how)

    def ended(self, *arguments: str, code: int = 0, **how: Any) -> Event:
        """The last line that a session told."""
        told: Event = self.holdfast(*arguments, "--json", code=code, **how).objects[-1]
        return told

    # What there is to see

    def events(self, run: str, kind: str | None = None) -> list[Event]:
        events = [json.loads(line) for line in self.log(run).splitlines()]
        return [event for event in events if kind is None or event["type"] == kind]

    def log(self, run: str) -> bytes:
        if self.holdfast.store is None:
            return Path(run_folder(self.home, run), LOG).read_bytes()
        return asyncio.run(whole(PostgresStore(self.holdfast.store, self.home), run))

    def data(self, run: str, kind: str) -> list[Event]:
        return [event["data"] for event in self.events(run, kind)]

    def prompts(self, run: str, role: str | None = None) -> list[str]:
        """What agents were told, in this order."""
        conversations = {d["conversation"]: d.get("role") for d in self.data(run, "conversation.opened")}
        return [
            said["text"]
            for said in self.data(run, "message.recorded")
            if said["speaker"] in ("user", "system") and (role is None or conversations[said["conversation"]] == role)
        ]

    def states(self, run: str) -> dict[str, str]:
        """How each task stands."""
        shown = self.holdfast("show", run, "--json").object["state"]
        return {name: task["status"] for name, task in shown["tasks"].items()}

    def file(self, run: str, path: str) -> str:
        """As it is on the run's branch."""
        return self.project.show(f"{branch(run)}:{path}")

    def subjects(self, run: str) -> list[str]:
        """Of the commits on the run's branch since it began, the oldest first."""
        return self.project.git("log", "--reverse", "--topo-order", "--format=%s", f"main..{branch(run)}").splitlines()

    def home_of(self, run: str) -> str:
        return run_folder(self.home, run)

    def only_run(self) -> str:
        (run,) = (one["id"] for one in self.holdfast("ls", "--json").objects)
        return str(run)


def branch(run: str, task: str | None = None) -> str:
    return worktree_names(run, task).branch


def heard(process: subprocess.Popen[bytes], fits: Callable[[Event], bool]) -> Event:
    """Read what a session tells until something fits."""
    assert process.stdout is not None
    for line in process.stdout:
        event: Event = json.loads(line)
        if fits(event):
            return event
    raise AssertionError(f"it never came; {finished(process, process.wait())}")


def wait_for_event(process: subprocess.Popen[bytes], kind: str, **data: Any) -> Event:
    """Read until an event of this kind, with these values."""
    return heard(process, lambda e: e.get("type") == kind and data.items() <= e["data"].items())


def killed(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL, and gone."""
    process.kill()
    assert process.wait() == -signal.SIGKILL
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def outcome(process: subprocess.Popen[bytes], code: int = 0) -> Outcome:
    return finished(process, code)


def alive(stage: Stage) -> list[str]:
    """Command lines of processes that have to do with this home, and do not end."""
    found = {pid: command for pid, command in _commands() if os.fsencode(stage.folder) in command + _environment(pid)}
    return [_words(command) for pid, command in found.items() if pid != os.getpid() and not _ends(pid)]


def _commands() -> Iterator[tuple[int, bytes]]:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it ended meanwhile
            yield int(name), Path(f"/proc/{name}/cmdline").read_bytes()


def _environment(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _words(command: bytes) -> str:
    return command.replace(b"\0", b" ").decode(errors="replace")


def _ends(pid: int) -> bool:
    """True of one that is gone, or on its way."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], PATIENCE)[0])
    finally:
        os.close(process)


def _task(name: str) -> dict[str, Any]:
    return {"id": name, "title": f"make {name}", "acceptance_criteria": ["works"]}
