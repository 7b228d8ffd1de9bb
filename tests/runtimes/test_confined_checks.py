"""Checks run what an agent wrote, and so where the agent runs."""

import asyncio
from pathlib import Path
from typing import Any

from tests.runtimes.hostile import Attack
from tests.support.cli_stage import alive, heard, killed
from tests.support.wait import until


def writes(files: dict[str, str]) -> dict[str, Any]:
    steps = [{"write": {"path": path, "text": text}} for path, text in files.items()]
    return {"when": "You are the worker", "steps": [*steps, {"say": "done"}]}


def makefile(*lines: str) -> dict[str, str]:
    return {"Makefile": "test:\n" + "".join(f"\t{line}\n" for line in lines)}


def test_planted_makefile_reaches_nothing_outside(attack: Attack) -> None:
    run = attack.run(writes(makefile(f"@{attack.theft}", "@echo made > built.txt")))
    (check,) = attack.checks(run)
    assert (check["name"], check["passed"], check["runtime"]) == ("make test", True, attack.runtime.kind)
    assert check["output"] == "confined\n"
    assert attack.stage.states(run) == {"T-1": "COMPLETE"}


def test_check_writes_to_the_worktree(attack: Attack) -> None:
    """One that formats changes what is committed, as it does outside of any runtime."""
    run = attack.run(writes({**makefile("@echo tidy > text.txt"), "text.txt": "untidy\n"}))
    assert attack.stage.file(run, "text.txt") == "tidy"


def test_failing_check_fails_for_the_worker(attack: Attack) -> None:
    run = attack.run(
        writes(makefile("@echo broken; exit 3")),
        {"when": "broken", "steps": [{"write": {"path": "Makefile", "text": "test:\n\t@true\n"}}, {"say": "done"}]},
    )
    told = [(check["passed"], check["exit_code"]) for check in attack.checks(run)]
    assert told == [(False, 2), (True, 0)]


def test_check_has_no_secret_and_no_run_folder_to_write(attack: Attack) -> None:
    script = "@env; touch ../intruder 2>/dev/null; echo x >> $$(dirname $$PWD)/inbox.jsonl; true"
    agent = attack.stage.book(writes(makefile(script)))
    environment = {**attack.environment, "SOME_API_TOKEN": "hush-4f1d"}
    run = attack.stage.run("do it", *attack.options(agent), env=environment)
    (check,) = attack.checks(run)
    assert "NO_COLOR=1" in check["output"]
    assert "hush-4f1d" not in check["output"]
    assert not list(Path(attack.stage.home_of(run)).rglob("intruder"))


def test_killed_during_a_check_nothing_of_it_is_left_for_the_next_session(attack: Attack) -> None:
    """The first one hangs, with a daemon beside it that has no environment."""
    script = "@test -e second || { touch second; (setsid env -i sleep 3600 &); sleep 3600; }"
    agent = attack.stage.book(writes(makefile(script)))
    process = attack.stage.start("run", "do it", *attack.options(agent), env=attack.environment)
    heard(process, lambda event: event.get("type") == "validation.started")
    run_id = attack.stage.only_run()
    asyncio.run(until(lambda: bool(list(Path(attack.stage.home_of(run_id)).rglob("second")))))
    killed(process)
    attack.stage.resume(run_id, env=attack.environment)
    assert [check["passed"] for check in attack.checks(run_id)] == [True]
    assert alive(attack.stage) == []
    attack.must_have_failed(run_id)
