"""Readable files beside the log: the plan, verdicts, proposed learnings. Derived from the log, and never read.

Best effort: a file that cannot be written does not stop the run. It is written when the run is opened again, even if
the run is done. Documents of phases are different: if one cannot be written, the session fails.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from glob import glob

import msgspec

from holdfast.core.state import RunState
from holdfast.core.task_state import EvaluatorVerdict
from holdfast.core.work.names import worktree_names
from holdfast.engine.session.artifacts import write_artifacts
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.workflows.prompt_templates import file_name

_FAILPOINT = failpoint_pair("projection.write")
_PLAN, _LEARNINGS = "plan.json", "proposed-learnings.md"


def write_ledger(folder: str, task: str, verdicts: Sequence[EvaluatorVerdict]) -> None:
    """Write the entries of a ledger. The time comes first, as in the ledgers of other tools."""
    rows = [{"ts": verdict.ts, **msgspec.to_builtins(verdict)} for verdict in verdicts]
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    _write(os.path.join(folder, _ledger(task)), lines)


def write_plan(folder: str, state: RunState) -> None:
    if state.plan is None:
        return
    tasks = {name: state.tasks[name] for name in state.plan.order if name in state.tasks}
    page = {
        "plan": state.plan,
        "tasks": {name: {"status": task.status, "title": task.summary} for name, task in tasks.items()},
    }
    _write(os.path.join(folder, _PLAN), msgspec.json.format(msgspec.json.encode(page)) + b"\n")


def write_learnings(folder: str, learnings: Sequence[str]) -> None:
    """Write the learnings for the user, who copies accepted ones to the project's own guide."""
    lines = "".join(f"- {' '.join(learning.split())}\n" for learning in learnings)
    page = f"# Proposed learnings\n\nMove what you agree with into AGENTS.md.\n\n{lines}"
    _write(os.path.join(folder, _LEARNINGS), page.encode())


def write_preferences(folder: str, preferences: Mapping[str, Sequence[str]]) -> None:
    """Write the preferences for the user to accept."""
    for role, proposed in preferences.items():
        lines = "".join(f"- {' '.join(preference.split())}\n" for preference in proposed)
        page = f"# Proposed preferences for {role}\n\n`holdfast preferences` accepts or refuses them.\n\n{lines}"
        _write(os.path.join(folder, _preferences(role)), page.encode(errors="replace"))


def write_projections(folder: str, state: RunState) -> None:
    """Write all projections, including those that a crash left out."""
    write_pages(folder, state)
    write_artifacts(folder, state)


def write_pages(folder: str, state: RunState) -> None:
    """Write all except the documents of phases, which a person may have edited since the run was done."""
    write_plan(folder, state)
    write_preferences(folder, state.preferences)
    if state.learnings:
        write_learnings(folder, state.learnings)
    for name, task in state.tasks.items():
        if task.verdicts:
            write_ledger(folder, name, task.verdicts)
    if state.rewinds:
        _delete_abandoned(folder, state)


def _delete_abandoned(folder: str, state: RunState) -> None:
    """Delete the pages of what a rewind took back: nothing would write them again."""
    kept = {_ledger(name) for name, task in state.tasks.items() if task.verdicts}
    kept |= {_preferences(role) for role in state.preferences}
    kept |= {_PLAN} if state.plan is not None else set()
    kept |= {_LEARNINGS} if state.learnings else set()
    ledgers = glob(os.path.join("ledger", "*.jsonl"), root_dir=folder)
    names = [_PLAN, _LEARNINGS, *ledgers, *glob(_preferences("*"), root_dir=folder)]
    for name in names:
        if name not in kept:
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


def _ledger(task: str) -> str:
    return os.path.join("ledger", f"{worktree_names('', task).leaf}.jsonl")


def _preferences(role: str) -> str:
    return f"proposed-preferences-{file_name(role)}.md"


def _write(path: str, data: bytes) -> None:
    """Write only if the content changed: a long run has thousands of ledgers, and every sync takes time."""
    if _read_or_none(path) == data:
        return
    with suppress(OSError):
        _FAILPOINT.before()
        make_directories(os.path.dirname(path))
        replace(path, data)
        _FAILPOINT.after()


def _read_or_none(path: str) -> bytes | None:
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return None
