"""A container that is at work for a run that nobody owns is named, and can be ended."""

import json
from pathlib import Path

import pytest

from tests.support.cli_stage import HELLO, Stage
from tests.support.engine_stub import engine

pytest.importorskip("docker")

ORPHAN, OTHER = "0f" * 32, "1e" * 32


def used(stage: Stage, run: str, address: str) -> None:
    """The run's note of the engines that it has used, as it is made before its first container."""
    folder = Path(stage.home_of(run), "agents")
    folder.mkdir(exist_ok=True)
    (folder / "engines.json").write_text(json.dumps([address]), encoding="utf-8")


def container_messages(stage: Stage) -> list[str]:
    found = stage.holdfast("doctor", "--json", code=1).objects
    return [one["told"] for one in found if "container" in one.get("told", "")]


def test_orphaned_container_is_named_and_ended(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    socket = f"{stage.folder}/engine.sock"
    used(stage, run, f"unix://{socket}")
    with engine(socket, {ORPHAN: run, OTHER: "another-run-abcdef"}) as found:
        shown = stage.holdfast("show", run, "--json").object["orphaned_containers"]
        assert [(one["container"], one["address"]) for one in shown] == [(ORPHAN, f"unix://{socket}")]
        assert ORPHAN[:12] in stage.holdfast("show", run).out
        (words,) = container_messages(stage)
        assert ORPHAN[:12] in words
        stage.holdfast("doctor", "--fix")
        assert found.containers == {OTHER: "another-run-abcdef"}
        assert stage.holdfast("show", run, "--json").object["orphaned_containers"] == []


def test_engine_that_cannot_tell_is_named(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    used(stage, run, f"unix://{stage.folder}/nowhere.sock")
    (shown,) = stage.holdfast("show", run, "--json").object["orphaned_containers"]
    assert shown["container"] is None
    assert "nowhere.sock" in shown["problem"]
