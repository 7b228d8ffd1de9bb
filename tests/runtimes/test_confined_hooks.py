"""Hooks of the user's config, in a worktree that a confined agent writes to."""

import asyncio
import json
from pathlib import Path

from tests.runtimes.hostile import Attack
from tests.runtimes.test_confined_checks import writes
from tests.runtimes.test_confined_git import commit, program
from tests.support.cli_stage import alive, killed
from tests.support.wait import until


def hook(name: str, *words: str) -> tuple[str, ...]:
    return ("--set", f"hooks.{name}={json.dumps([words])}")


def test_makefile_that_post_edit_runs_reaches_nothing_outside(attack: Attack) -> None:
    """It is told of the edit on stdin, and may write to the worktree."""
    lines = ("fmt:", f"\t@{attack.theft}", '\t@grep -o \'"hook":"[a-z_]*"\'', "\t@touch formatted && exit 3")
    turn = writes({"Makefile": "\n".join(lines) + "\n"})
    run = attack.run(turn, options=hook("post_edit", "make", "fmt"))
    ran = attack.stage.data(run, "hook.ran")[0]
    assert (ran["hook"], ran["runtime"], ran["outcome"], ran["problem"]) == (
        "post_edit",
        attack.runtime.kind,
        "failed",
        None,
    )
    assert ran["reason"].startswith('confined "hook":"post_edit" make: ***')


def test_program_in_the_worktree_is_no_hook(attack: Attack) -> None:
    """Those that run as the user never start what the agent could have written."""
    program(attack, "guard", attack.theft)
    program(attack, "notify", attack.theft)
    commit(attack, "programs")
    turn = writes({})
    turn["steps"].insert(0, {"write": {"path": "a.txt", "text": "a\n", "via": "client"}})
    run = attack.run(turn, code=1, options=(*hook("pre_tool", "./guard"), *hook("session_end", "./notify")))
    ran = {(one["hook"], one["outcome"], one["exit_code"]) for one in attack.stage.data(run, "hook.ran")}
    assert ran == {("pre_tool", "block", None), ("session_end", "failed", None)}
    assert all("confined agent" in one["problem"] for one in attack.stage.data(run, "hook.ran"))
    assert attack.stage.data(run, "tool.blocked")


def test_killed_during_post_edit_nothing_of_it_is_left_for_the_next_session(attack: Attack) -> None:
    hang = "fmt:\n\t@test -e second || { touch second; (setsid env -i sleep 3600 &); sleep 3600; }\n"
    stage, options = attack.stage, hook("post_edit", "make", "fmt")
    agent = stage.book(writes({"Makefile": hang}))
    process = stage.start("run", "do it", *attack.options(agent), *options, env=attack.environment)
    asyncio.run(until(lambda: bool(list(Path(stage.home).rglob("second")))))
    killed(process)
    stage.resume(stage.only_run(), env=attack.environment)
    assert alive(stage) == []
