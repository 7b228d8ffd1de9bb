"""What is fed with garbage: each target reads bytes as one of our readers does.

Whatever they are, it ends, and raises nothing but a `HoldfastError` with words to act on. What a reader takes, whoever
comes after it can use.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple
from unicodedata import category

import msgspec
import pytest

from holdfast.agents.playbook.reader import read_playbook
from holdfast.app.text.event_colours import event_colour
from holdfast.app.text.events import describe_event, event_subject
from holdfast.app.text.resume_report import format_report
from holdfast.app.text.workflow_drawing import draw_workflow
from holdfast.core.decide.analysis import analyze
from holdfast.core.decide.phases import decide
from holdfast.core.events import Event
from holdfast.core.fold.fold import Fold
from holdfast.core.log.codec import CODEC, InvalidEventData, Line, parse
from holdfast.core.log.verification import Verifier
from holdfast.core.messages.signals import read_signal, signals_for_role
from holdfast.core.summary.needs import needs_of
from holdfast.core.work.workflow import Bounds, PlanShape, build_plan
from holdfast.engine.config import config
from holdfast.engine.config.of_run import workflow_of
from holdfast.engine.home import Home
from holdfast.leaf.errors import HoldfastError
from holdfast.workflows.reader import read_workflow
from holdfast.workflows.tasklists import read_tasks
from tests.fuzz.hearing import hear
from tests.fuzz.receiving import receive
from tests.fuzz.seeds import (
    FLAGS,
    FRAMES,
    LOG,
    MESSAGES,
    PAGES,
    PLAYBOOKS,
    REPORTS,
    SETTINGS,
    TASKS_JSON,
    TASKS_YAML,
    WORKFLOWS,
)
from tests.fuzz.writing import must_be_writable
from tests.support.memory import in_memory

_LONGEST = 20_000  # characters of a refusal: it may quote what it refuses


class Target(NamedTuple):
    """`read` is given anything; `seeds` are what people write, for a fuzzer to begin with."""

    read: Callable[[bytes], object]
    seeds: list[bytes]


def feed(target: Target, data: bytes) -> None:
    """One input: taken, or refused in a line."""
    refusal = _refusal(target, data)
    assert refusal is None or 0 < len(refusal.strip()) < _LONGEST, refusal


def _refusal(target: Target, data: bytes) -> str | None:
    try:
        target.read(data)
    except HoldfastError as error:
        return str(error)
    return None


@contextmanager
def _file(data: bytes, name: str) -> Iterator[str]:
    with in_memory() as folder:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        yield path


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """With these for as long as one input is read: whoever comes next in this process has none of them."""
    with pytest.MonkeyPatch.context() as changed:
        changed.delenv("HOLDFAST_CONFIG", raising=False)
        for name, value in variables.items():
            changed.setenv(name, value)
        yield


# --- what people write -------------------------------------------------------------------------------


def _tasks(name: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> None:
        with _file(data, name) as path:
            tasks = read_tasks(path)
        for shape in PlanShape:
            must_be_writable(build_plan(tasks, shape, "source"))

    return read


def _folder(data: bytes) -> None:
    """Pages are parted by a line of equal signs; the first line of each is its name."""
    with _file(b"", ".keep") as path:
        for page in data.split(b"\n====\n")[:20]:
            name, _, text = page.partition(b"\n")
            with _opened(
                os.path.join(os.path.dirname(path), os.fsdecode(name.replace(b"/", b"")) or "page.md")
            ) as file:
                file.write(text)
        must_be_writable(build_plan(read_tasks(os.path.dirname(path)), PlanShape.GRAPH))


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    try:
        file = open(path, "wb")  # noqa: SIM115 - what cannot be a file's name is none
    except (OSError, ValueError):
        file = open(os.devnull, "wb")  # noqa: SIM115
    with file:
        yield file


def _settings(data: bytes) -> None:
    with _file(data, "config.toml") as path, _environment(HOLDFAST_CONFIG=path):
        found = config.load_config(home=Home(os.path.dirname(path)))
        assert found.origins.keys() == found.values.keys()


def _project(data: bytes) -> None:
    with _file(data, ".holdfast.toml") as path:
        folder = os.path.dirname(path)
        os.mkdir(os.path.join(folder, ".git"))
        with _environment(XDG_CONFIG_HOME=folder):
            found = config.load_config(folder, home=Home(folder))
        assert bool(found.warnings) == bool(found.ignored)
        assert all(line and line.isprintable() for line in found.warnings), found.warnings


def _flags(data: bytes) -> None:
    name, _, value = data.decode(errors="replace").partition("=")
    try:
        given: Any = json.loads(value)
    except (ValueError, RecursionError):
        given = value
    with _file(b"", "config.toml") as path, _environment(HOLDFAST_CONFIG=path):
        config.load_config(home=Home(os.path.dirname(path)), flags={name: given})


def _workflow(data: bytes) -> None:
    with _file(data, "flow.yaml") as path:
        workflow = read_workflow(path)
    assert list(draw_workflow(workflow))
    state = Fold().state
    decide(state, workflow, Bounds())


def _playbook(data: bytes) -> None:
    with _file(data, "book.yaml") as path:
        read_playbook(path)


# --- what programs write -----------------------------------------------------------------------------


def _log(data: bytes) -> None:
    """Read as analysis, verification, and all that is shown of a run do."""
    whole = data if data.endswith(b"\n") else data + b"\n"
    fold = Fold()
    fold.feed(whole)
    verifier = Verifier()
    verifier.feed(whole)
    assert verifier.result().lines == whole.count(b"\n")
    assert format_report(analyze(fold.state))
    list(needs_of(fold.state))
    for raw in whole.split(b"\n"):
        line = parse(raw)
        if isinstance(line, Line):
            try:
                event = CODEC.event(line)
            except InvalidEventData as unfit:
                event = unfit.partial_event
            if event is not None:
                _shown(event, fold)
    if fold.state.workflow is None:
        decide(fold.state, workflow_of(Fold().state), Bounds())


def _shown(event: Event, fold: Fold) -> None:
    words = describe_event(event)
    assert not any(category(one) == "Cc" for one in words or ""), words  # nothing that drives a terminal
    assert event_subject(event, fold.state) is not None
    event_colour(event)


def _report(data: bytes) -> None:
    """The first word is the role, the second the tool; the rest its arguments."""
    role, _, rest = data.decode(errors="replace").partition(" ")
    tool, _, text = rest.partition(" ")
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(arguments, dict):
        signal = read_signal(role, tool, arguments)
        assert signal.tool in {kind.tool for kind in signals_for_role(role)}
        assert read_signal(role, tool, msgspec.json.decode(msgspec.json.encode(signal))) == signal


def _frames(data: bytes) -> None:
    asyncio.run(hear(data))


TARGETS = {
    "tasks.json": Target(_tasks("tasks.json"), TASKS_JSON),
    "tasks.yaml": Target(_tasks("tasks.yaml"), TASKS_YAML),
    "page.md": Target(_tasks("T-1-page.md"), PAGES),
    "pages": Target(_folder, [b"T-1.md\n" + PAGES[0] + b"\n====\nT-2.md\n# Two"]),
    "config": Target(_settings, SETTINGS),
    "project": Target(_project, SETTINGS),
    "flags": Target(_flags, FLAGS),
    "workflow": Target(_workflow, WORKFLOWS),
    "playbook": Target(_playbook, PLAYBOOKS),
    "log": Target(_log, LOG),
    "inbox": Target(receive, MESSAGES),
    "report": Target(_report, REPORTS),
    "frames": Target(_frames, FRAMES),
}
