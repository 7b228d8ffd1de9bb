"""Runs whose agents work in their own terminal UIs, in tmux: from the first prompt to the last merge."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.runtimes.tmux import missing_requirement
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE
from holdfast.leaf.process.identity import identify
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, alive, killed, outcome, wait_for_event, worker
from tests.support.wait import PATIENCE

IN_TMUX = ("--set", "runtime.kind=tmux")

needs_tmux = pytest.mark.skipif(missing_requirement() is not None, reason=missing_requirement() or "")


def patient(stage: Stage) -> str:
    """An agent that works, tells so, and goes on when it is let."""
    go = os.path.join(stage.folder, "go")
    steps = ({"write": {"path": "one.txt", "text": "1\n"}}, {"wait_for": {"path": go, "timeout": PATIENCE}}, SUBMIT)
    progress = {"mcp": {"tool": "report_progress", "arguments": {"text": "begun"}}}
    return stage.book(worker(steps[0], progress, *steps[1:]), EVALUATE, sessions={"interrupted": "continue"})


def let_go(stage: Stage) -> None:
    Path(stage.folder, "go").touch()


def came_back(stage: Stage, process: subprocess.Popen[bytes]) -> None:
    """The worker, by its own session; and then to the end."""
    wait_for_event(process, "conversation.attached", rung="session/resume")
    let_go(stage)
    outcome(process)


def windows(command: list[str]) -> Any:
    """What tmux has: windows and the processes in them."""
    server = command[: command.index("attach-session")]
    asked = [*server, "list-panes", "-a", "-F", "#{window_name} #{pane_pid}"]
    rows = subprocess.run(asked, capture_output=True, check=False)
    return sorted(rows.stdout.decode().splitlines())


@needs_tmux
def test_nothing_is_touched_while_it_is_owned_and_the_end_is_as_ever(stage: Stage) -> None:
    with stage.start("run", "say one", "--workflow", "loop", "--agent", patient(stage), *IN_TMUX) as process:
        wait_for_event(process, "progress.reported")
        run = stage.only_run()
        command = stage.holdfast("attach", run, "--tmux", "--json").object["command"]
        before = windows(command), stage.project.footprint(), stage.events(run)
        assert [name.rpartition(" ")[0] for name in before[0]] == ["run", "worker T-1"]
        assert "owned" in stage.holdfast("resume", run, code=5).complaint
        assert (windows(command), stage.project.footprint(), stage.events(run)) == before
        assert "tmux needs a terminal" in stage.holdfast("attach", run, "--tmux", code=2).complaint
        let_go(stage)
        outcome(process)
    assert stage.file(run, "one.txt") == "1"
    assert [d["accept"] for d in stage.data(run, "verdict.given")] == [True]
    assert stage.subjects(run) == ["say one", "Merge task T-1"]
    assert alive(stage) == []
    assert "no agent" in stage.holdfast("attach", run, "--tmux", code=4).complaint


@needs_tmux
@pytest.mark.torture
@pytest.mark.parametrize("how", ["runner", "all", "server"])
def test_what_is_killed_comes_back_and_the_end_is_the_same(stage: Stage, how: str) -> None:
    with stage.start("run", "say one", "--workflow", "loop", "--agent", patient(stage), *IN_TMUX) as process:
        wait_for_event(process, "progress.reported")
        run = stage.only_run()
        command = stage.holdfast("attach", run, "--tmux", "--json").object["command"]
        pane = identify(int(next(row for row in windows(command) if row.startswith("worker")).rpartition(" ")[2]))
        assert pane is not None
        if how == "all":
            process.send_signal(signal.SIGSTOP)
            os.kill(stage.data(run, "conversation.attached")[0]["pid"], signal.SIGKILL)
        if how != "server":
            killed(process)
        else:
            subprocess.run([*command[: command.index("attach-session")], "kill-server"], check=True)
            came_back(stage, process)
    if how != "server":
        with stage.start("resume", run) as process:
            came_back(stage, process)
    assert not pane.is_alive()
    assert [d["rung"] for d in stage.data(run, "conversation.attached")] == ["fresh", "session/resume", "fresh"]
    assert stage.subjects(run) == ["say one", "Merge task T-1"]
    assert alive(stage) == []


@needs_tmux
@pytest.mark.torture
@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_while_it_notes_where_its_tmux_is(stage: Stage, side: str) -> None:
    passes = Path(stage.folder, "passes")
    passes.touch()
    let_go(stage)
    armed = {FAILPOINT_VARIABLE: f"tmux.place.{side}:1", FAILPOINT_FILE_VARIABLE: str(passes)}
    with stage.start("run", "say one", "--agent", patient(stage), *IN_TMUX, env=armed) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    run = stage.only_run()
    with stage.start("resume", run) as process:
        outcome(process)
    assert stage.subjects(run) == ["say one", "Merge task T-1"]
    assert alive(stage) == []


def test_without_tmux_it_says_so(stage: Stage) -> None:
    bare = {"PATH": "/nonexistent"}
    run = stage.holdfast("plan", "say one", "--json").object["run"]
    assert "tmux is not installed" in stage.holdfast("attach", run, "--tmux", code=2, env=bare).complaint


def test_the_doctor_misses_it_where_it_is_chosen(stage: Stage) -> None:
    bare = {"PATH": "/nonexistent"}
    assert "tmux" not in stage.holdfast("doctor", code=1, env=bare).out
    settings = Path(stage.holdfast.environment()["XDG_CONFIG_HOME"], "holdfast", "config.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text('[roles.worker]\nruntime = {kind = "tmux"}\n')
    assert "tmux is not installed" in stage.holdfast("doctor", code=1, env=bare).out
