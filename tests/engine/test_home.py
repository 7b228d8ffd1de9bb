"""Finding a run by what a person typed."""

import os

import pytest

from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, NoSuchRun
from tests.cli.foreign import SEED_LOG, put


def put_runs(home: str, *run_ids: str) -> None:
    for run_id in run_ids:
        put(home, "runs", run_id, "events.jsonl", log=SEED_LOG)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("auth-abc234", "auth-abc234"),
        ("auth", "auth-abc234"),
        ("auth-a", "auth-abc234"),
        ("auth-s", "auth-system-xyz789"),
        ("auth-system", "auth-system-xyz789"),
        ("p", "pay-abc234"),
        ("пла", "платёж-abc234"),
        ("Auth", "auth-abc234"),
        ("Auth System!", "auth-system-xyz789"),
    ],
)
def test_id_then_slug_then_beginning(home: str, name: str, found: str) -> None:
    put_runs(home, "auth-abc234", "auth-system-xyz789", "pay-abc234", "платёж-abc234")
    assert Home(home).find_run(name) == found


def test_a_slug_that_two_runs_have_is_ambiguous_also_when_a_third_begins_with_it(home: str) -> None:
    put_runs(home, "auth-abc234", "auth-xyz789", "auth-system-xyz789")
    with pytest.raises(BadInput, match="could be any of auth-abc234, auth-xyz789; type more"):
        Home(home).find_run("auth")


@pytest.mark.parametrize(
    "name", ["", "x", "AUT", "uth", "abc234", "auth-abc2345", "../runs/auth-abc234", "auth-abc234\0", "日本", "!"]
)
def test_a_part_that_is_no_beginning_finds_nothing(home: str, name: str) -> None:
    put_runs(home, "auth-abc234")
    with pytest.raises(NoSuchRun):
        Home(home).find_run(name)


def test_name_without_letters_finds_no_run(home: str) -> None:
    """The slug of such a name is `run`, and so is that of every other such name."""
    put_runs(home, "run-abc234")
    assert Home(home).find_run("run") == "run-abc234"
    for name in ("日本", "!!", ""):
        with pytest.raises(NoSuchRun):
            Home(home).find_run(name)


def test_a_folder_without_a_log_is_no_run(home: str) -> None:
    put_runs(home, "auth-abc234")
    os.makedirs(os.path.join(home, "runs", "pay-abc234"))
    put(home, "runs", "a file", log=b"")
    assert Home(home).run_ids() == ["auth-abc234"]


def test_runs_are_in_order(home: str) -> None:
    put_runs(home, "c-abc234", "a-abc234", "b-abc234")
    assert Home(home).run_ids() == ["a-abc234", "b-abc234", "c-abc234"]
