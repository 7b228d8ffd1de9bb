"""How a worktree was last seen, by the log alone: what must be saved, should somebody delete its folder."""

from typing import Any

import pytest

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated, BranchDeleted
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended
from holdfast.core.events.session import RunCreated
from tests.core.logs import fold_once, session_log

OWN, TASK = "holdfast/r1/main", "holdfast/r1/T-1"
BEGUN = (
    RunCreated(run_id="r1", goal="g", branch=OWN),
    BranchCreated(name=OWN, base="b"),
    BranchCreated(name=TASK, base="b", task="T-1"),
)


def done(kind: str, task: str | None = "T-1", result: dict[str, Any] | None = None, **arguments: Any) -> list[Event]:
    return [
        EffectIntended(effect="e", kind=kind, task=task, arguments={"task": task, **arguments}),
        EffectHappened(effect="e", result=result or {}),
    ]


def last_seen(*events: Event) -> dict[str, str | None]:
    state = fold_once(session_log(*BEGUN, *events)).state
    return {name: branch.unsaved for name, branch in state.branches.items()}


TAKEN = done("snapshot.take", result={"commit": "s1"})


@pytest.mark.parametrize(
    ("after", "seen"),
    [
        ([], "s1"),
        (done("snapshot.take", result={"commit": "s2"}), "s2"),
        (done("snapshot.restore", commit="s0"), "s0"),
        (done("commit", result={"commit": None}), None),
        (done("commit.failed", result={"commit": "c"}), None),
        ([*done("commit.failed", result={"commit": "c"}), *done("commit.unwind", result={"unwound": "c"})], "c"),
        (done("commit.unwind", result={"unwound": None}), "s1"),
        (done("worktree.remove"), None),
        (done("worktree.remove", task=None, folder="tasks/T-1"), None),
        (done("worktree.remove", task=None, folder="workspace"), "s1"),
        (done("worktree.make", base="b"), "s1"),
        (done("merge"), "s1"),
        ([BranchDeleted(name=TASK)], "s1"),
        ([BranchDeleted(name=TASK), BranchCreated(name=TASK, base="c", task="T-1")], "s1"),
        (done("refs.drop", task=None, prefix="refs/holdfast/snapshot/r1/"), None),
        (done("refs.drop", task=None, prefix="refs/holdfast/snapshot/r1/T-2"), "s1"),
        ([EffectIntended(effect="e", kind="commit", task="T-1"), EffectDidNotHappen(effect="e")], "s1"),
        (done("snapshot.take", task="T-2", result={"commit": "s2"}), "s1"),
    ],
)
def test_by_what_was_done_in_it(after: list[Event], seen: str | None) -> None:
    assert last_seen(*TAKEN, *after) == {OWN: None, TASK: seen}


def test_of_the_runs_own_worktree_too() -> None:
    assert last_seen(*done("snapshot.take", task=None, result={"commit": "s1"})) == {OWN: "s1", TASK: None}


@pytest.mark.parametrize(
    "garbage", [done("snapshot.take", result={"commit": 7}), done("snapshot.restore", commit=["s"], folder=3)]
)
def test_what_is_no_commit_is_none(garbage: list[Event]) -> None:
    assert last_seen(*garbage) == {OWN: None, TASK: None}
