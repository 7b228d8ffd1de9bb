"""Documents of phases as files, against the log: the log decides, and nobody's words are lost."""

import os
from pathlib import Path

import pytest

from holdfast.core.events.phase import ArtifactStored, WorkflowChosen
from holdfast.core.state import RunState
from holdfast.engine.session.artifacts import describe_difference, find_differences, write_artifacts
from tests.core.phase_logs import started, state_of


def stored(text: str, round_: int = 1) -> ArtifactStored:
    return ArtifactStored(phase="thinking", round=round_, name="thinking", title="t", text=text)


STATE = state_of(started("thinking"), stored("first\n"), started("thinking", 2), stored("second\n", 2))
FILE = "artifacts/thinking/thinking.md"
MINE = "mine\n"

# What the file says, or that it is not there; how it is told; and what lies there when it is written.
ROWS: dict[str, tuple[str | None, list[str], dict[str, str]]] = {
    "as the log has it": ("second\n", [], {FILE: "second\n"}),
    "not there": (None, ["was not there; it is written again from the log"], {FILE: "second\n"}),
    "of an earlier round": ("first\n", ["was older than the log; it is written again"], {FILE: "second\n"}),
    "empty, as a crash of others may leave it": ("", ["was edited after it was handed in"], {}),
    "somebody's own": (
        MINE,
        ["the log decides, so the recorded version is written again. The edit is kept as artifacts/thinking/thinking."],
        {FILE: "second\n"},
    ),
}


def files(folder: Path) -> dict[str, str]:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {os.fspath(path.relative_to(folder)): path.read_text() for path in found}


def put(folder: Path, text: str | None) -> None:
    path = folder / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_text(text)


@pytest.mark.parametrize("what", ROWS)
def test_what_lies_beside_the_log_is_told_and_then_as_the_log_has_it(tmp_path: Path, what: str) -> None:
    text, expected, after = ROWS[what]
    put(tmp_path, text)
    before = files(tmp_path)
    found = [describe_difference("r-1", one, has_planner=True) for one in find_differences(str(tmp_path), STATE)]
    assert len(found) == len(expected)
    assert all(part in line for part, line in zip(expected, found, strict=True))
    assert files(tmp_path) == before, "to look is not to touch"
    write_artifacts(str(tmp_path), STATE)
    assert after.items() <= files(tmp_path).items()
    assert find_differences(str(tmp_path), STATE) == []


def test_an_edit_is_set_aside_once_however_often_it_is_found_and_the_user_is_told_how_it_is_taken_up(
    tmp_path: Path,
) -> None:
    put(tmp_path, MINE)
    (one,) = find_differences(str(tmp_path), STATE)
    assert one.set_aside_path is not None
    assert "`holdfast send r-1 --change - < FILE` hands it in" in describe_difference("r-1", one, has_planner=True)
    assert "`holdfast send r-1 - < FILE` hands it in" in describe_difference("r-1", one, has_planner=False)
    for _ in range(2):
        put(tmp_path, MINE)
        write_artifacts(str(tmp_path), STATE)
        assert files(tmp_path) == {FILE: "second\n", one.set_aside_path: MINE}
    put(tmp_path, "another\n")
    write_artifacts(str(tmp_path), STATE)
    assert sorted(files(tmp_path).values()) == ["another\n", MINE, "second\n"]


@pytest.mark.parametrize(("text", "ending"), [("days: 3\n", "yaml"), ('{"days": 3}\n', "json")])
def test_data_are_files_of_their_kind(tmp_path: Path, text: str, ending: str) -> None:
    phase = {"name": "thinking", "role": "architect", "schema": {"type": "object"}}
    chosen = WorkflowChosen(workflow={"name": "w", "about": "w", "phases": [phase]})
    state: RunState = state_of(chosen, started("thinking"), stored(text))
    write_artifacts(str(tmp_path), state)
    assert files(tmp_path) == {f"artifacts/thinking/thinking.{ending}": text}


def test_data_in_another_form_than_before_is_there_once(tmp_path: Path) -> None:
    chosen = WorkflowChosen(workflow={"phases": [{"name": "thinking", "schema": {}}]})
    first = (chosen, started("thinking"), stored('{"size": 1}'))
    write_artifacts(str(tmp_path), state_of(*first))
    assert list(files(tmp_path)) == ["artifacts/thinking/thinking.json"]
    write_artifacts(str(tmp_path), state_of(*first, started("thinking", 2), stored("size: 2", 2)))
    assert list(files(tmp_path)) == ["artifacts/thinking/thinking.yaml"]
