"""Files in a worktree that have the names of Python modules: no program of ours imports them."""

from pathlib import Path

import pytest

from tests.support.cli_stage import ACCEPT, SUBMIT, Stage, worker

_MODULES = ("holdfast/__init__.py", "holdfast/__main__.py", "json.py", "msgspec.py", "mcp.py", "sitecustomize.py")


@pytest.fixture
def imported(stage: Stage, tmp_path: Path) -> Path:
    """The repository has modules at its top that write their names to this file when they are imported."""
    told = tmp_path / "imported"
    for name in _MODULES:
        path = Path(stage.project.path, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open({str(told)!r}, 'a').write(__file__ + chr(10))\n", encoding="utf-8")
    stage.project.git("add", "-A")
    stage.project.git("commit", "-qm", "modules")
    return told


def test_modules_of_the_repository_are_not_imported(stage: Stage, imported: Path) -> None:
    """Agents of ours, and the servers of their tools, start in the worktree."""
    agent = stage.book(
        worker({"write": {"path": "done.txt", "text": "done\n"}}, SUBMIT),
        {"when": "You are the evaluator", "steps": [ACCEPT]},
    )
    run = stage.run(stage.tasks("T-1"), "--workflow", "loop", "--agent", agent, cold=True)
    assert stage.states(run) == {"T-1": "COMPLETE"}
    assert not imported.exists(), imported.read_text(encoding="utf-8")


def test_demo_imports_nothing_from_the_current_folder(stage: Stage, imported: Path) -> None:
    stage.holdfast("demo", "log", cold=True)
    assert not imported.exists(), imported.read_text(encoding="utf-8")
