"""How often a run starts git: each start costs more than what most of them do."""

import asyncio
import json
from pathlib import Path

from tests.support.cli_stage import Stage, worker
from tests.support.wait import until

MAX_PER_TASK = 20  # 17 when this was written; a plain script needs 7
MAX_TO_FIRST_PROMPT = 7  # of a resume with two worktrees
MAX_TO_PLAN = 9
HANGS = {"hang": {"how": "turn", "seconds": 3600}}
WRITES = worker({"write": {"path": "note.txt", "text": "{{cwd}}\n"}}, {"say": "done"})


def test_task_starts_few_git_processes(stage: Stage, tmp_path: Path) -> None:
    """The difference between two runs is the cost of the tasks alone."""
    started = []
    for number, tasks in enumerate((["T-1"], ["T-1", "T-2", "T-3", "T-4"])):
        trace = tmp_path / f"trace-{number}"
        trace.mkdir()
        names = stage.tasks(*tasks, name=f"plan-{number}.json")
        run = stage.run(names, "--agent", stage.book(WRITES), env={"GIT_TRACE2_EVENT": str(trace)})
        assert set(stage.states(run).values()) == {"COMPLETE"}
        started.append(commands_in(trace))
    per_task = (len(started[1]) - len(started[0])) / 3
    assert per_task <= MAX_PER_TASK, "\n".join(started[1])


def commands_in(folder: Path) -> list[str]:
    """The git commands that Holdfast started, without those that git started itself."""
    found = []
    for trace in sorted(folder.iterdir()):
        events = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
        if "/" not in events[0]["sid"]:
            found += [" ".join(event["argv"]) for event in events if event["event"] == "start"]
    return found


def test_plan_starts_few_git_processes(stage: Stage, tmp_path: Path) -> None:
    """Before its first task: its repository, its base, its worktree, its anchor, and what is not committed."""
    trace = tmp_path / "trace"
    trace.mkdir()
    stage.holdfast("plan", "Say hello", "--agent", stage.book(WRITES), env={"GIT_TRACE2_EVENT": str(trace)})
    started = commands_in(trace)
    assert len(started) <= MAX_TO_PLAN, "\n".join(started)


def test_resume_starts_few_git_processes(stage: Stage, tmp_path: Path) -> None:
    """After a kill it looks for what is lost, and where its branches and worktrees are."""
    with stage.start("run", stage.tasks("T-1", "T-2"), "--agent", stage.book(worker(HANGS))) as runner:
        asyncio.run(until(lambda: stage_prompts(stage) == 1))
        runner.kill()
    trace = tmp_path / "trace"
    trace.mkdir()
    with stage.start("resume", stage.only_run(), env={"GIT_TRACE2_EVENT": str(trace)}) as runner:
        asyncio.run(until(lambda: stage_prompts(stage) == 2))
        runner.kill()
    started = commands_in(trace)
    assert len(started) <= MAX_TO_FIRST_PROMPT, "\n".join(started)


def stage_prompts(stage: Stage) -> int:
    """How many prompts the only run has sent."""
    logs = [*Path(stage.home, "runs").glob("*/events.jsonl")]
    return sum(log.read_bytes().count(b'"turn.started"') for log in logs)
