"""Words that are no UTF-8 are refused in a line, and nothing was begun."""

import os

import pytest

from tests.cli.program import Program
from tests.support.cli_stage import HELLO, Stage

HALF = b"hello \xff"


@pytest.mark.parametrize(
    "words",
    [
        [HALF],
        [b"hello", b"--name", HALF],
        [b"hello", b"--set", b"caps.iterations=" + HALF],
        [b"hello", b"--agent", b"playbook:" + HALF],
        [HALF + b".json"],
    ],
)
def test_a_run_is_not_begun_with_them(stage: Stage, words: list[bytes]) -> None:
    outcome = stage.holdfast("run", *map(os.fsdecode, words), code=2)
    assert "is not UTF-8" in outcome.complaint
    assert not os.path.exists(os.path.join(stage.home, "runs"))


def test_they_are_not_sent_and_from_stdin_they_are_mended(stage: Stage) -> None:
    run = stage.run("say hello", "--agent", stage.book(HELLO))
    assert "is not UTF-8" in stage.holdfast("send", run, os.fsdecode(HALF), code=2).complaint
    assert "is not UTF-8" in stage.holdfast("resume", run, "--on-issue", os.fsdecode(HALF), code=2).complaint
    reading, writing = os.pipe()
    os.write(writing, HALF)
    os.close(writing)
    stage.holdfast("send", run, "-", stdin=reading)
    os.close(reading)


def test_a_name_that_is_no_text_names_no_run(holdfast: Program) -> None:
    for command in ("show", "logs", "verify", "diff", "reset"):
        holdfast(command, os.fsdecode(HALF), code=4)
