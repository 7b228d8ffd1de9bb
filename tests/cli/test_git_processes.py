"""How often a run starts git: each start costs more than what most of them do."""

import json
from pathlib import Path

from tests.support.cli_stage import Stage, worker

MAX_PER_TASK = 20  # 17 when this was written; a plain script needs 7
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
