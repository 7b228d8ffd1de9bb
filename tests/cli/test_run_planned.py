"""A run made ready first, and started later; and one that died while it was made."""

import os

import pytest

from tests.support.cli_stage import HELLO, Stage
from tests.support.projects import write


def test_what_was_planned_is_started_by_run(stage: Stage) -> None:
    planned = stage.holdfast("plan", "say hello", "--agent", stage.book(HELLO), "--json").object["run"]
    assert stage.holdfast("ls", "--json").object["status"] == "planned"
    assert stage.data(planned, "turn.started") == []
    assert stage.run() == planned
    assert stage.file(planned, "hello.txt") == "hello"
    assert "no run is prepared here" in stage.holdfast("run", code=4).complaint


def test_run_is_found_by_the_name_it_was_given(stage: Stage) -> None:
    planned = stage.holdfast("plan", "say hello", "--name", "FailB", "--json").object["run"]
    for name in ("FailB", "failb"):
        assert stage.holdfast("show", name, "--json").object["id"] == planned


def killed_in_the_making(stage: Stage, *options: str) -> str:
    """A run whose planner was killed while git made its worktree."""
    hook = os.path.join(stage.project.git_dir, "hooks", "post-checkout")
    gate = f"{stage.folder}/gate"
    os.mkfifo(gate)
    write(os.path.dirname(hook), {"post-checkout": f"#!/bin/sh\necho here > {gate}\nsleep 100\n"})
    os.chmod(hook, 0o755)
    with stage.start("plan", "say hello", "--agent", stage.book(HELLO), *options) as process:
        with open(gate, encoding="utf-8") as opened:
            assert opened.read() == "here\n"
        process.kill()
        process.wait()
    os.unlink(hook)
    return stage.only_run()


@pytest.mark.torture
def test_one_that_was_killed_while_it_was_planned_can_go_on(stage: Stage) -> None:
    run = killed_in_the_making(stage)
    assert stage.resume(run)["ended"] == "all_done"
    assert stage.file(run, "hello.txt") == "hello"
    stage.holdfast("verify", run)


def test_an_untrusted_project_file_is_told_of(stage: Stage) -> None:
    stage.project.commit({".holdfast.toml": '[hooks]\nsession_start = ["touch /tmp/never"]\n'}, "Config")
    told = stage.holdfast("plan", "say hello", "--agent", stage.book(HELLO))
    assert "ignored until you trust this file: hooks.session_start" in told.err
    assert "ignored until you trust" in stage.holdfast("resume", told.out.strip(), "--quiet").err
