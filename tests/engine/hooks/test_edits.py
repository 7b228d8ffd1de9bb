"""Which files changed between two looks at a worktree."""

import pytest

from holdfast.engine.hooks.edits import Signature, WorktreeState, changed_between

A, B = (1,), (2,)

#  the files that differ from the commit before, and now; those of before on the disk now; what was committed since
TABLE: dict[str, tuple[dict[str, Signature], dict[str, Signature], dict[str, Signature], list[str], list[str]]] = {
    "nothing": ({}, {}, {}, [], []),
    "a new file": ({}, {"a": A}, {}, [], ["a"]),
    "the same as before": ({"a": A}, {"a": A}, {"a": A}, [], []),
    "changed once more": ({"a": A}, {"a": B}, {"a": B}, [], ["a"]),
    "a new file is deleted": ({"a": A}, {}, {"a": None}, [], ["a"]),
    "a file of the commit is deleted": ({}, {"a": None}, {}, [], ["a"]),
    "a deleted file stays deleted": ({"a": None}, {"a": None}, {"a": None}, [], []),
    "a change is taken back": ({"a": A}, {}, {"a": B}, [], ["a"]),
    "a change is only committed": ({"a": A}, {}, {"a": A}, ["a"], []),
    "changed and committed": ({"a": A}, {}, {"a": B}, ["a"], ["a"]),
    "made and committed": ({}, {}, {}, ["a"], ["a"]),
    "a new file is ignored now": ({"a": A}, {".gitignore": A}, {"a": A}, [], [".gitignore"]),
}


@pytest.mark.parametrize("what", TABLE)
def test_changed_between(what: str) -> None:
    before, now, there, committed, expected = TABLE[what]
    assert changed_between(WorktreeState("c1", before), WorktreeState("c2", now), there, committed) == expected
