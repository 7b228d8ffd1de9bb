"""The names of a run's branches, folders and refs: valid for git, safe on a disk, and each task's own."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.work.names import run_of_branch, worktree_names

RUN = "test-abc234"
ODD = [
    "", ".", "..", "/", "a/b", "../../etc", "-f", "--help", "main", "MAIN", "HEAD", "@", "@{1}", "a.lock", "a..b", "a.",
    ".a", "a b", "a\nb", "a\tb", "a\0b", "a~1", "a^", "a:b", "a?b", "a*b", "a[b", "a\\b", "ü", "日本", "é", "e\u0301",
    "\udcff", "\ud800", "x" * 300, "T-1", "T_1", "T.1", "refs/heads/main", "workspace", "CON", "~", "$HOME", "`id`",
]  # fmt: skip


@pytest.mark.parametrize("task", ODD)
def test_git_takes_every_name(task: str) -> None:
    place = worktree_names(RUN, task)
    for ref in (f"refs/heads/{place.branch}", f"{place.snapshot_refs}/x", f"{place.salvage_refs}/x"):
        assert subprocess.run(["git", "check-ref-format", ref], check=False).returncode == 0, ref


TEXT = st.text(alphabet="aAbB01-_.~^:?*[\\/@{} \n\t\0üé日\u0301\udcff\ud800")


@given(TEXT | st.sampled_from(ODD))
def test_a_name_is_a_safe_folder_and_a_component_of_a_ref(task: str) -> None:
    leaf = worktree_names(RUN, task).leaf
    assert leaf.isascii()
    assert 0 < len(leaf) <= 60
    assert leaf[0].isalnum()
    assert set(leaf) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert ".." not in leaf
    assert not leaf.endswith((".", ".lock"))
    assert leaf != "main"
    assert run_of_branch(worktree_names(RUN, task).branch) == RUN


@given(st.sets(TEXT | st.sampled_from(ODD), min_size=2, max_size=50))
def test_no_two_tasks_share_a_place(tasks: set[str]) -> None:
    places = [worktree_names(RUN, task) for task in tasks]
    assert len({place.branch for place in places}) == len({place.folder for place in places}) == len(tasks)


def test_many_tasks_of_an_alphabet_that_branches_cannot_have_share_no_place() -> None:
    tasks = [chr(0x4E00 + number // 100) + chr(0x4E00 + number % 100) for number in range(10_000)]
    assert len({worktree_names(RUN, task).leaf for task in tasks}) == len(tasks)


@given(TEXT)
def test_the_name_made_for_one_task_is_never_anothers_own(task: str) -> None:
    made = worktree_names(RUN, task).leaf
    if made != task:
        assert worktree_names(RUN, made).leaf != made


def test_an_ordinary_id_is_its_own_name() -> None:
    assert worktree_names(RUN, "T-1.2_b") == (RUN, "T-1.2_b", "T-1.2_b")
    assert worktree_names(RUN, "T-1").folder == "tasks/T-1"
    assert worktree_names(RUN).folder == "workspace"
    assert worktree_names(RUN).branch == f"holdfast/{RUN}/main"


@pytest.mark.parametrize("branch", ["main", "holdfast", "holdfast/x", "holdfast/x/", "feature/holdfast/x/main"])
def test_other_branches_belong_to_no_run(branch: str) -> None:
    assert run_of_branch(branch) is None
