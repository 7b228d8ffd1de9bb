"""A waves run that is killed again and again, at points that a seed chooses, until it is done."""

import os
import random
import signal
import subprocess
from contextlib import suppress

from holdfast.leaf.errors import EXIT_OK, NothingToDo
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, alive, branch, worker

MAKE = {"run": "t=$(git rev-parse --abbrev-ref HEAD | sed 's,.*/,,'); echo $t >> $t.txt"}
TASKS = ("A", "B", "C")
SESSIONS = 12  # of which all but the last few may be killed
_DONE = (EXIT_OK, NothingToDo.exit_code)  # the latter, where it was killed after its last word


def survived(stage: Stage, seed: int, kills: int) -> str:
    """Start, kill so many times, and go on to the end. Returns the run."""
    chance = random.Random(seed)
    agent = stage.book(EVALUATE, worker(MAKE, SUBMIT), sessions={"interrupted": "again"})
    tasks = stage.tasks("A", "B", {"id": "C", "depends_on": ["A", "B"]})
    command = ["run", "--workflow", "waves", tasks, "--agent", agent]
    run, code = None, None
    for session in range(SESSIONS):
        with stage.start(*command) as process:
            if session < kills:
                _interrupted(stage, process, chance)
            process.communicate()
        code = process.returncode
        if code in _DONE:
            break
        run = run or stage.only_run()
        command = ["resume", run]
    assert code in _DONE, stage.holdfast("show", run or "").out
    return run or stage.only_run()


def _interrupted(stage: Stage, process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Let it tell so many events, and then kill it, an agent of it, or both."""
    assert process.stdout is not None
    for _ in range(chance.randint(1, 140)):
        if not process.stdout.readline():
            return
    whom = chance.choice(["runner", "agent", "both"])
    if whom != "runner":
        for pid in _agents(stage):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if whom != "agent":
        process.kill()


def _agents(stage: Stage) -> list[int]:
    """One of those that are at work, if any is."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
            command = file.read()
            if b"playbook" in command and os.fsencode(stage.folder) in command and b"--json" not in command:
                found.append(int(name))
    return found[:1]


def assert_whole(stage: Stage, run: str) -> None:
    """Each task is merged once, no commit is there twice, nothing is left over, and the log is whole."""
    assert stage.states(run) == dict.fromkeys(TASKS, "COMPLETE")
    subjects = stage.subjects(run)
    assert sorted(subjects) == sorted([f"make {t}" for t in TASKS] + [f"Merge task {t}" for t in TASKS])
    assert [stage.file(run, f"{task}.txt").splitlines()[0] for task in TASKS] == list(TASKS)
    trailers = stage.project.git("log", "--format=%(trailers:key=Holdfast-Effect,valueonly)", f"main..{branch(run)}")
    effects = trailers.split()
    assert len(effects) == len(set(effects))
    assert stage.data(run, "task.failed") == []
    assert max(d["iteration"] for d in stage.data(run, "case.submitted")) == 1  # no attempt was used up
    assert stage.project.branches() == [branch(run)]
    assert len(stage.project.worktrees()) == 1
    assert stage.project.git("status", "--porcelain") == ""
    assert alive(stage) == []
    stage.holdfast("verify", run)
    stage.holdfast("resume", run, code=4)
