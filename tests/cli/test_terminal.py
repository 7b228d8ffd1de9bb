"""On a terminal there is colour and a width to keep to; in a pipe there is neither."""

import re

import pytest

from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.task import TaskFailed
from tests.cli.program import Program
from tests.cli.runs import DONE, make_run, said, tasks
from tests.cli.terminal import shown

RUN = "auth-abc234"

COMMANDS = [("ls",), ("show", RUN), ("logs", RUN), ("verify", RUN), ("analyze", RUN)]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def _run(holdfast: Program) -> None:
    events = (*tasks(1), said("word " * 100), Checkpoint(label="c"), TaskFailed(task_id="1"))
    make_run(holdfast.home, RUN, *events, goal="Add OAuth login " * 20)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_terminal_gets_colour(holdfast: Program, arguments: tuple[str, ...]) -> None:
    assert _COLOUR.search(shown(holdfast, *arguments))


@pytest.mark.parametrize("arguments", COMMANDS[:2], ids=" ".join)
def test_a_pipe_gets_none(holdfast: Program, arguments: tuple[str, ...]) -> None:
    assert "\x1b" not in holdfast(*arguments, env={"TERM": "xterm-256color"}).out


def test_a_terminal_may_do_without_colour(holdfast: Program) -> None:
    for arguments in COMMANDS[:2]:
        assert "\x1b" not in shown(holdfast, *arguments, NO_COLOR="1")
        assert "\x1b" not in shown(holdfast, *arguments, TERM="dumb")


def test_an_empty_no_color_asks_for_nothing(holdfast: Program) -> None:
    assert _COLOUR.search(shown(holdfast, "show", RUN, NO_COLOR=""))


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("arguments", [("ls",), ("logs", RUN)], ids=" ".join)
def test_a_table_keeps_to_the_width_of_the_terminal(
    holdfast: Program, arguments: tuple[str, ...], columns: int
) -> None:
    lines = [_COLOUR.sub("", line) for line in shown(holdfast, *arguments, columns=columns).splitlines()]
    assert max(map(len, lines)) == columns


def test_a_list_on_a_terminal_has_a_heading_and_in_a_pipe_only_runs(holdfast: Program) -> None:
    heading, line = shown(holdfast, "ls", NO_COLOR="1").splitlines()
    assert heading.split() == ["RUN", "STATUS", "NEEDS", "TASKS", "REPOSITORY", "AGE", "GOAL"]
    assert line.index("interrupted") == heading.index("STATUS")
    assert [found.split()[0] for found in holdfast("ls").lines] == [RUN]


LONG = "add-oauth-login-with-google-and-git-k3x9qz"


@pytest.mark.parametrize(
    ("columns", "heading"),
    [
        (200, ["RUN", "STATUS", "NEEDS", "TASKS", "REPOSITORY", "AGE", "GOAL"]),
        (93, ["RUN", "STATUS", "NEEDS", "TASKS", "AGE", "GOAL"]),
        (80, ["RUN", "STATUS", "NEEDS", "TASKS", "AGE"]),
        (70, ["RUN", "STATUS", "NEEDS", "AGE"]),
    ],
)
def test_on_a_narrow_terminal_columns_give_way_and_no_line_is_broken(
    holdfast: Program, columns: int, heading: list[str]
) -> None:
    make_run(holdfast.home, LONG, *tasks(1), goal="Add OAuth login with Google and GitHub")
    first, *lines = shown(holdfast, "ls", columns=columns, NO_COLOR="1").splitlines()
    assert first.split() == heading
    assert sorted(line.split()[0] for line in lines) == [LONG, RUN]
    assert max(map(len, lines)) <= columns


def test_a_terminal_that_does_not_tell_its_width_shows_all(holdfast: Program) -> None:
    heading, *_ = shown(holdfast, "ls", columns=0, NO_COLOR="1").splitlines()
    assert heading.split() == ["RUN", "STATUS", "NEEDS", "TASKS", "REPOSITORY", "AGE", "GOAL"]


def test_a_chinese_goal_takes_two_columns_a_character(holdfast: Program) -> None:
    make_run(holdfast.home, "db-abc234", goal="数据库迁移" * 20)
    (line,) = (line for line in shown(holdfast, "ls", NO_COLOR="1").splitlines() if line.startswith("db-"))
    goal = line.split()[-1]
    assert goal.startswith("数据库迁移")
    assert goal.endswith("…")
    assert 78 <= len(line) + len(goal) - 1 <= 80


def test_json_has_no_colour_on_a_terminal_either(holdfast: Program) -> None:
    for arguments in COMMANDS[:2]:
        assert "\x1b" not in shown(holdfast, *arguments, "--json")


def test_an_empty_home_on_a_terminal_says_what_to_do(holdfast: Program) -> None:
    empty = holdfast.elsewhere(home=f"{holdfast.home}-empty")
    assert shown(empty, "ls") == "no runs yet; create one with: holdfast run GOAL, or try: holdfast demo\n"


def test_a_run_that_is_done_is_green(holdfast: Program) -> None:
    make_run(holdfast.home, "pay-abc234", DONE)
    assert "\x1b[32mdone" in shown(holdfast, "ls")
    assert "\x1b[32mdone" in shown(holdfast, "show", "pay")
