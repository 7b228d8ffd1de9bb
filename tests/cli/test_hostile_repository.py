"""A cloned repository whose files are links to files of its user: nothing of those reaches an agent or the log."""

import os
from pathlib import Path

import pytest

from tests.support.cli_stage import HELLO, Stage

KEY = "-----BEGIN PRIVATE KEY-----"


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "id_ed25519"
    path.write_text(KEY)
    return str(path)


def link(stage: Stage, name: str, target: str) -> str:
    path = os.path.join(stage.project.path, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)
    return path


def holds_key(folder: str) -> list[str]:
    files = [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", [".holdfast/prompts/worker.md", ".holdfast/preferences/worker.md", ".holdfast.toml"])
def test_linked_prompt_or_config_is_refused_before_the_run_is_made(stage: Stage, key: str, name: str) -> None:
    link(stage, name, key)
    refused = stage.holdfast("run", "say hello", "--agent", stage.book(HELLO), code=2)
    assert KEY not in refused.out + refused.err
    assert stage.holdfast("ls", "--json").objects == []


@pytest.mark.parametrize("name", ["tasks/T-001-steal.md", "tasks/overview.md"])
def test_linked_task_is_refused(stage: Stage, key: str, name: str) -> None:
    os.makedirs(os.path.join(stage.project.path, "tasks"), exist_ok=True)
    Path(stage.project.path, "tasks", "T-002-plain.md").write_text("---\ntitle: plain\n---\nDo it.\n")
    link(stage, name, key)
    refused = stage.holdfast("run", "tasks", "--workflow", "loop", "--agent", stage.book(HELLO), code=2)
    assert KEY not in refused.out + refused.err
    assert stage.holdfast("ls", "--json").objects == []


def test_linked_workflow_and_schema_are_refused(stage: Stage, key: str) -> None:
    link(stage, "flow.yaml", key)
    refused = stage.holdfast("run", "x", "--workflow", "flow.yaml", "--agent", stage.book(HELLO), code=2)
    assert KEY not in refused.out + refused.err


def test_linked_guide_is_left_out(stage: Stage, key: str) -> None:
    link(stage, "AGENTS.md", key)
    stage.project.git("add", "AGENTS.md")
    stage.project.git("commit", "-qm", "guide")
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    assert stage.file(run, "hello.txt") == "hello"
    assert holds_key(stage.home) == []
