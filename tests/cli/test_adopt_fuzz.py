"""Sessions of other tools with values of any kind in any place: each is read or refused, and makes valid events."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from holdfast.core.events import Event
from holdfast.core.work.workflow import PlanShape, build_plan
from holdfast.engine.commands.adopt.base import ForeignSession
from holdfast.engine.commands.adopt.find import detect, read_session
from holdfast.engine.commands.adopt.importing import HistoryImporter
from holdfast.engine.commands.adopt.plan_repair import repair
from holdfast.leaf.errors import HoldfastError
from tests.cli import foreign_sessions as foreign

ROUNDS = 40
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, 2**70, "", "x", "../..", "a" * 300, "\x00\x1b", "T-001", "done", "failed"),
    *([], {}, [None], [[1]], {"a": {"b": 1}}, {"type": "text", "text": 5}, ["x", 5, {}]),
)


def sources(folder: Path) -> Iterator[Path]:
    repo, home = folder / "repo", folder / "home"
    repo.mkdir()
    foreign.git(repo, "init", "-q")
    yield foreign.tilth(folder / "new", "e1")[0]
    yield foreign.seed_tilth(folder / "old", "e1")[0]
    yield foreign.agentmux(folder, "a")[0]
    yield foreign.claude_session(home, repo, fork=True)
    yield foreign.codex_session(home, repo, finished=True)
    yield foreign.kandev_session(home)
    yield foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)


def mutated(value: Any, rng: random.Random, share: float) -> Any:
    if rng.random() < share:
        return rng.choice(ODD)
    if isinstance(value, dict):
        return {key: mutated(item, rng, share) for key, item in value.items() if rng.random() > share / 2}
    return [mutated(item, rng, share) for item in value] if isinstance(value, list) else value


def damage(path: Path, rng: random.Random) -> None:
    share = rng.choice((0.01, 0.05, 0.15))
    if path.suffix == ".jsonl":
        lines = [json.dumps(mutated(json.loads(line), rng, share)) for line in path.read_text().splitlines()]
        kept = [line[: rng.randrange(len(line))] if rng.random() < share else line for line in lines]
        path.write_text("".join(f"{line}\n" for line in kept if rng.random() > share))
    else:
        path.write_text(json.dumps(mutated(yaml.safe_load(path.read_text()), rng, share)))
    if rng.random() < share:
        path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def events_of(session: ForeignSession) -> Iterator[Event]:
    tasks = repair(session.tasks, [])
    if tasks.tasks:
        yield build_plan(tasks, PlanShape.GRAPH)
    importer = HistoryImporter(session.conversations, {each.key: "agent" for each in session.conversations})
    yield from session.before(tasks)
    yield from importer.opened()
    yield from importer.events(session.history())
    yield from session.after(tasks)


@pytest.mark.parametrize("number", range(7))
def test_any_value_anywhere_is_read_or_refused(tmp_path: Path, number: int) -> None:
    source = list(sources(tmp_path))[number]
    rng = random.Random(number)
    read = 0
    for attempt in range(ROUNDS):
        copy = tmp_path / f"attempt-{attempt}" / source.name
        copy.parent.mkdir()
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy(source, copy)
        for path in [copy] if copy.is_file() else sorted(copy.rglob("*")):
            if path.suffix in (".json", ".jsonl", ".yaml") and rng.random() < 0.6:
                damage(path, rng)
        before = foreign.fingerprint(copy.parent)
        try:
            found = detect(str(copy))
            if found is None:
                continue
            session = read_session(found)
            for event in events_of(session):
                msgspec.json.decode(msgspec.json.encode(event), type=type(event))
        except HoldfastError:
            continue
        assert all(isinstance(text, str) for text in (session.goal, session.state, session.id, *session.findings))
        assert foreign.fingerprint(copy.parent) == before
        read += 1
    assert read > ROUNDS // 2
