"""How a run is named on the command line: by its id, by the beginning of it, or by its slug."""

import os

import pytest

from tests.cli.foreign import SEED_LOG, put
from tests.cli.program import Program
from tests.cli.runs import DONE, make_run

COMMANDS = ("show", "logs", "verify")


@pytest.mark.parametrize("name", ["auth-system-abc234", "auth-system", "a"])
def test_id_slug_and_prefix_mean_the_same_run(holdfast: Program, name: str) -> None:
    for run_id in ("auth-system-abc234", "pay-xyz789"):
        make_run(holdfast.home, run_id)
    assert holdfast("show", name, "--json").object["id"] == "auth-system-abc234"


def test_every_command_takes_such_names(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-system-abc234")
    for command in COMMANDS:
        assert holdfast(command, "auth-system").out == holdfast(command, "auth-system-abc234").out


def test_a_slug_wins_over_the_beginnings_of_others(holdfast: Program) -> None:
    for name in ("auth-abc234", "auth-system-abc234"):
        put(holdfast.home, "runs", name, "events.jsonl", log=SEED_LOG)
    assert holdfast("show", "auth", "--json").object["id"] == "auth-abc234"


def test_an_id_wins_over_the_beginnings_of_others(holdfast: Program) -> None:
    for name in ("auth-abc234", "auth-abc234-xyz789"):
        put(holdfast.home, "runs", name, "events.jsonl", log=SEED_LOG)
    assert holdfast("show", "auth-abc234", "--json").object["id"] == "auth-abc234"


@pytest.mark.parametrize("name", ["auth", "au"])
def test_an_ambiguous_name_lists_the_candidates(holdfast: Program, name: str) -> None:
    for run_id in ("auth-abc234", "auth-xyz789"):
        put(holdfast.home, "runs", run_id, "events.jsonl", log=SEED_LOG)
    complaint = holdfast("show", name, code=2).complaint
    assert complaint == f"'{name}' could be any of auth-abc234, auth-xyz789; type more of its name"


@pytest.mark.parametrize("command", [*COMMANDS, "analyze"])
def test_every_command_refuses_an_ambiguous_name(holdfast: Program, command: str) -> None:
    for run_id in ("auth-abc234", "auth-xyz789"):
        put(holdfast.home, "runs", run_id, "events.jsonl", log=SEED_LOG)
    assert "could be any of" in holdfast(command, "auth", code=2).complaint


def test_of_many_candidates_a_few_are_listed_and_the_rest_counted(holdfast: Program) -> None:
    for number in range(20):
        put(holdfast.home, "runs", f"auth-abc2{number:02}", "events.jsonl", log=SEED_LOG)
    assert "auth-abc207 and 12 more; type" in holdfast("show", "auth", code=2).complaint


@pytest.mark.parametrize("name", ["nobody", "", "../runs/auth-abc234", "\udcff", "x" * 5000])
def test_a_name_of_no_run_is_no_such_run(holdfast: Program, name: str) -> None:
    put(holdfast.home, "runs", "auth-abc234", "events.jsonl", log=SEED_LOG)
    assert holdfast("show", name, code=4).complaint.startswith(f"there is no run {name!r} under ")


@pytest.mark.parametrize("command", COMMANDS)
def test_in_an_empty_home_there_is_no_such_run(holdfast: Program, command: str) -> None:
    complaint = holdfast(command, "auth", code=4).complaint
    assert complaint == f"there is no run 'auth' under {holdfast.home}; `holdfast ls` lists them"
    assert not os.path.exists(holdfast.home), "looking makes no home"


def test_a_home_that_is_a_file_is_named(holdfast: Program) -> None:
    with open(holdfast.home, "w", encoding="utf-8"):
        pass
    for command in (("ls",), ("show", "auth"), ("logs", "auth"), ("demo", "--quiet")):
        assert holdfast.home in holdfast(*command, code=2).complaint


def test_without_a_home_of_its_own_it_uses_the_data_folder_of_the_user(holdfast: Program) -> None:
    make_run(os.path.join(holdfast.cwd, "data", "holdfast"), "auth-abc234", DONE)
    data = {"HOLDFAST_HOME": "", "XDG_DATA_HOME": os.path.join(holdfast.cwd, "data")}
    assert holdfast("ls", "--json", env=data).object["id"] == "auth-abc234"
    make_run(os.path.join(holdfast.cwd, ".local", "share", "holdfast"), "pay-abc234", DONE)
    user = {"HOLDFAST_HOME": "", "HOME": holdfast.cwd}
    assert holdfast("ls", "--json", env=user).object["id"] == "pay-abc234"


def test_a_relative_home_is_taken_from_where_one_stands(holdfast: Program) -> None:
    make_run(os.path.join(holdfast.cwd, "here"), "auth-abc234", DONE)
    assert holdfast("show", "auth", "--json", env={"HOLDFAST_HOME": "here"}).object["folder"] == os.path.join(
        holdfast.cwd, "here", "runs", "auth-abc234"
    )
