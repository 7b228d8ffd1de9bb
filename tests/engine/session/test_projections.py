"""Readable files beside the log."""

import os

from holdfast.core.state import RunState
from holdfast.core.task_state import EvaluatorVerdict, Plan, Task
from holdfast.engine.session.projections import write_projections


def test_what_says_nothing_new_is_not_written_again(tmp_path: os.PathLike[str]) -> None:
    folder = os.fspath(tmp_path)
    tasks = {name: Task(verdicts=[EvaluatorVerdict(1, True)]) for name in ("a", "b")}
    state = RunState(plan=Plan(order=["a", "b"]), tasks=tasks, learnings=["tests need a key"])
    write_projections(folder, state)
    before = _files(folder)
    assert sorted(before) == ["ledger/a.jsonl", "ledger/b.jsonl", "plan.json", "proposed-learnings.md"]

    tasks["b"].verdicts.append(EvaluatorVerdict(2, False))
    write_projections(folder, state)
    after = _files(folder)
    assert {name for name in before if before[name] != after[name]} == {"ledger/b.jsonl"}


def _files(folder: str) -> dict[str, int]:
    """Each with its inode, which is another one when it was written."""
    found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return {os.path.relpath(path, folder): os.stat(path).st_ino for path in found}
