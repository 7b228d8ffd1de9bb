"""Usage limits and outages of providers: the run waits or parks with its reset time, and no prompt is sent before."""

import asyncio
import datetime as dt
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.commands.supervise import supervise_runs
from holdfast.engine.home import Home
from holdfast.leaf.wall_clock import WallClock
from tests.cli.test_run_refused import PLANNED
from tests.cli.test_run_watched import watching
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, heard, killed, outcome, wait_for_event, worker
from tests.support.pipelines import PLANNER, WRITE, file_of

WROTE = {"write": {"path": "a.txt", "text": "a\n"}}
AWAY = {"error": {"code": -32603, "message": "Internal error", "data": {"details": "connect ECONNREFUSED 127.0.0.1:9"}}}


def limited(seconds: float) -> dict[str, Any]:
    """An error as our own agent reports it."""
    at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    data = {"kind": "rate_limit", "resetsAt": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {"error": {"code": -32000, "message": "no more requests for now", "data": data}}


def once(step: dict[str, Any]) -> dict[str, Any]:
    return {"when": ".", "once": True, "steps": [step]}


def prompts_at(stage: Stage, run: str) -> list[float]:
    return [dt.datetime.fromisoformat(event["ts"]).timestamp() for event in stage.events(run, "turn.started")]


def ended_at_limit(stage: Stage, *turns: dict[str, Any], options: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    agent = stage.book(*turns)
    ended = stage.ended("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent, *options, code=1)
    return str(ended["run"]), ended


def test_a_run_parks_at_a_usage_limit_and_sends_no_prompt_before_the_reset(stage: Stage) -> None:
    run, ended = ended_at_limit(stage, once(limited(7500)), worker(WROTE))
    assert ended["ended"] == "quota"
    assert "usage limit reached, resets" in ended["detail"]
    (hit,) = stage.data(run, "quota.hit")
    assert hit["how"] == "the agent's error data"
    assert hit["attempts"] == 1
    assert hit["until"] > hit["resets_at"] > stage.events(run)[-1]["ts"]
    assert stage.data(run, "error.encountered") == []
    assert len(stage.data(run, "turn.started")) == 1

    again = stage.ended("resume", run, code=1)
    assert again["ended"] == "quota"
    assert len(stage.data(run, "turn.started")) == 1

    (listed,) = stage.holdfast("ls", "--json").objects
    assert (listed["status"], listed["resumes_at"]) == ("quota", hit["until"])
    assert "quota 2h " in stage.holdfast("ls").out
    shown = stage.holdfast("show", run).out
    assert "usage limit reached, resets" in shown
    assert "(in 2h " in shown
    assert f"holdfast resume {run} --now" in shown

    assert stage.resume(run, "--now")["ended"] == "all_done"
    assert [d["agent"] for d in stage.data(run, "limit.lifted")] == [hit["agent"]]
    assert stage.file(run, "a.txt") == "a"
    assert stage.holdfast("show", run, "--json").object["state"]["limits"] == {}


def test_a_short_limit_is_waited_for(stage: Stage) -> None:
    agent = stage.book(once(limited(3)), worker(WROTE))
    run = stage.run("--workflow", "solo", stage.tasks("A"), "--agent", agent)
    (hit,) = stage.data(run, "quota.hit")
    first, second = prompts_at(stage, run)
    assert second >= dt.datetime.fromisoformat(hit["resets_at"]).timestamp()
    assert second - first >= 2
    assert stage.file(run, "a.txt") == "a"


def test_watch_resumes_a_parked_run_at_its_reset(stage: Stage) -> None:
    run, ended = ended_at_limit(stage, once(limited(6)), worker(WROTE), options=("--set", "quota.wait=0"))
    assert ended["ended"] == "quota"
    (hit,) = stage.data(run, "quota.hit")
    with watching(stage) as process:
        assert heard(process, lambda _: True)["told"].startswith(("waits for its provider until", "resumed"))
        assert heard(process, lambda told: told["told"].startswith("resumed"))["run"] == run
        assert stage.holdfast("wait", run).out == "done\n"
    assert prompts_at(stage, run)[1] >= dt.datetime.fromisoformat(hit["resets_at"]).timestamp()


def chat_at_limit(stage: Stage, *options: str, code: int) -> str:
    agent = stage.book(once(limited(6)), {"when": "the greeting", "steps": [WROTE, {"say": "greeted"}]})
    chat = ("--workflow", "chat", "--agent", agent, "--set", "chat.idle=0", *options)
    return stage.run("write the greeting", *chat, code=code)


def test_watch_continues_a_chat_when_its_limit_is_over(stage: Stage) -> None:
    run = chat_at_limit(stage, "--set", "quota.wait=0", code=1)
    (hit,) = stage.data(run, "quota.hit")
    (listed,) = stage.holdfast("ls", "--json").objects
    assert (listed["status"], listed["resumes_at"]) == ("quota", hit["until"])
    assert stage.data(run, "warning.logged") == []
    with watching(stage) as process:
        assert heard(process, lambda told: told["told"].startswith("resumed"))["run"] == run
        stage.holdfast("wait", run)
    _, second = prompts_at(stage, run)
    assert second >= dt.datetime.fromisoformat(hit["resets_at"]).timestamp()
    assert stage.states(run) == {"T-1": "REVIEW"}
    assert "The request was:\nwrite the greeting" in stage.prompts(run)[1]


def test_waiting_for_a_limit_takes_no_processor(stage: Stage) -> None:
    """Also after the time in which a chat that waits for its user would have ended."""
    agent = stage.book(once(limited(6)), {"when": "the greeting", "steps": [WROTE]})
    chat = ("--workflow", "chat", "--agent", agent, "--set", "chat.idle=0")
    with stage.start("run", "write the greeting", *chat) as process:
        wait_for_event(process, "quota.hit")
        before = processor_time(process.pid)
        wait_for_event(process, "turn.started")
        assert processor_time(process.pid) - before < 2, "of 5 seconds"
        process.communicate()


def processor_time(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class SetClock(WallClock):
    """A clock that the test sets; sleeping takes no time, and lets it be set."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)
        self.slept: list[float] = []

    def now(self) -> float:
        return self.times[0]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.times) > 1:
            self.times.pop(0)
        await asyncio.sleep(0)


def test_watch_goes_by_the_wall_clock_also_when_it_is_set_back(stage: Stage) -> None:
    run, _ = ended_at_limit(stage, once(limited(7500)), worker(WROTE))
    at = dt.datetime.fromisoformat(stage.data(run, "quota.hit")[0]["until"]).timestamp()
    clock = SetClock(at - 7200, at - 60, at - 9000, at - 1, at + 1)
    told: list[str] = []

    async def watch_until_resumed() -> None:
        resumed = asyncio.Event()

        def report(_: str, text: str) -> None:
            told.append(text)
            if text.startswith("resumed"):
                resumed.set()

        supervision = asyncio.ensure_future(supervise_runs(Home(stage.home), report, clock))
        await asyncio.wait({supervision, asyncio.ensure_future(resumed.wait())}, return_when=asyncio.FIRST_COMPLETED)
        supervision.cancel()
        await asyncio.gather(supervision, return_exceptions=True)

    asyncio.run(watch_until_resumed())
    assert told[0].endswith("(in 2h)")
    assert told[1].startswith("resumed")
    assert clock.slept == [30, 30, 30, 1]
    stage.holdfast("wait", run, code=1)  # its runner has the real clock: it parks again, without a prompt
    assert len(stage.data(run, "turn.started")) == 1


def test_a_runner_that_is_killed_while_it_waits_waits_on_after_a_resume(stage: Stage) -> None:
    agent = stage.book(once(limited(7200)), worker(WROTE))
    options = ("--workflow", "solo", stage.tasks("A"), "--agent", agent, "--set", "quota.wait=1d")
    with stage.start("run", *options) as process:
        wait_for_event(process, "quota.hit")
        killed(process)
    run = stage.only_run()
    assert stage.ended("resume", run, "--set", "quota.wait=0", code=1)["ended"] == "quota"
    assert len(stage.data(run, "turn.started")) == 1
    assert stage.resume(run, "--now")["ended"] == "all_done"


def test_a_limit_of_one_agent_does_not_stop_tasks_of_others(stage: Stage) -> None:
    tired = stage.book({"when": ".", "steps": [limited(7200)]}, name="tired")
    fresh = stage.book(EVALUATE, worker({"write": {"path": "b.txt", "text": "b\n"}}, SUBMIT), name="fresh")
    tasks = stage.tasks({"id": "A", "agent": tired}, {"id": "B", "agent": fresh}, {"id": "C", "agent": tired})
    options = ("--workflow", "waves", "--agent", fresh, "--set", "validators.detect=false", "--parallel", "2")
    ended = stage.ended("run", *options, tasks, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "quota"
    assert stage.states(run)["B"] == "COMPLETE"
    assert len(stage.data(run, "quota.hit")) in (1, 2)  # both may have been prompted at once
    assert len([event for event in stage.events(run, "turn.started") if event["agent"] == "worker of A"]) == 1


def test_a_fallback_continues_at_once_with_the_history(stage: Stage) -> None:
    tired = stage.book(worker(WROTE, {"say": "I wrote a.txt"}, limited(7200)), name="tired")
    other = stage.book(worker({"write": {"path": "b.txt", "text": "b\n"}}), name="other")
    options = ("--workflow", "solo", "--agent", tired, "--set", f'roles.worker.fallback=["{other}"]')
    run = stage.run(*options, stage.tasks("A"))
    opened = stage.data(run, "conversation.opened")
    assert [d["agent"] for d in opened] == [tired, other]
    assert opened[1]["after"] == opened[0]["conversation"]
    assert len(stage.data(run, "turn.started")) == 2
    assert (stage.file(run, "a.txt"), stage.file(run, "b.txt")) == ("a", "b")
    attached = stage.data(run, "conversation.attached")
    assert attached[1]["rung"] == "history injection"


def test_a_fallback_that_cannot_start_does_not_park_the_run_beyond_the_reset(stage: Stage) -> None:
    """A person is not there to log it in: the first agent continues once its limit is over."""
    later = {"resume_context": True, "steps": [WROTE]}
    tired = stage.book(later, {"when": ".", "steps": [limited(4)]}, name="tired")
    broken = stage.book(worker(), name="broken", start=[{"crash": {"how": "exit", "code": 3}}])
    options = ("--workflow", "solo", "--agent", tired, "--set", f'roles.worker.fallback=["{broken}"]')
    run = stage.run(*options, stage.tasks("A"))
    assert stage.data(run, "outage.met")[0]["agent"] == broken
    assert "failed to start" in stage.data(run, "outage.met")[0]["detail"]
    assert [d["agent"] for d in stage.data(run, "conversation.opened")] == [tired, broken, tired]
    assert stage.file(run, "a.txt") == "a"


@pytest.mark.parametrize("goes_back", [False, True])
def test_a_fallback_gives_back_only_if_told_to(stage: Stage, *, goes_back: bool) -> None:
    new = {"how": "refuses", "message": "usage limit reached, try again in 2 seconds", "once": True}
    tired = stage.book(worker(WROTE, SUBMIT), EVALUATE, name="tired", agent={"new": new})
    slow = {"when": "You are the worker", "once": True, "steps": [{"sleep": 5}, {"say": "no case yet"}]}
    other = stage.book(slow, {"when": ".", "steps": [WROTE, SUBMIT]}, name="other")
    options = ("--workflow", "loop", "--agent", tired, "--set", f'roles.worker.fallback=["{other}"]')
    run = stage.run(*options, "--set", f"quota.go_back={str(goes_back).lower()}", stage.tasks("A"))
    workers = [d["agent"] for d in stage.data(run, "conversation.opened") if d["role"] == "worker"]
    assert workers == ([tired, other, tired] if goes_back else [tired, other])


def test_an_outage_is_waited_out_with_growing_pauses(stage: Stage) -> None:
    agent = stage.book(once(AWAY), once(AWAY), worker(WROTE))
    options = ("--set", "outage.back_off=2", "--set", "outage.longest_back_off=3")
    run = stage.run("--workflow", "solo", "--agent", agent, *options, stage.tasks("A"))
    met = stage.data(run, "outage.met")
    assert [d["attempts"] for d in met] == [1, 2]
    times = prompts_at(stage, run)
    assert all(later - earlier >= 1.9 for earlier, later in pairwise(times))
    assert stage.data(run, "iteration.ended") == stage.data(run, "error.encountered") == []
    assert stage.file(run, "a.txt") == "a"


def test_a_provider_that_stays_away_parks_the_run(stage: Stage) -> None:
    options = ("--set", "outage.wait=0")
    run, ended = ended_at_limit(stage, {"when": ".", "steps": [AWAY]}, options=options)
    assert ended["ended"] == "outage"
    assert "cannot be reached" in ended["detail"]
    assert "outage " in stage.holdfast("ls").out
    assert len(stage.data(run, "turn.started")) == 1


def test_an_agent_that_cannot_start_for_its_limit_parks_the_run(stage: Stage) -> None:
    new = {"how": "refuses", "message": "You have exhausted your daily quota; try again in 3 hours."}
    agent = stage.book(worker(WROTE), agent={"new": new})
    ended = stage.ended("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "quota"
    assert stage.data(run, "turn.started") == []
    stage.book(worker(WROTE))
    assert stage.resume(run, "--now")["ended"] == "all_done"


def test_an_agent_of_a_phase_waits_too(stage: Stage) -> None:
    flow = file_of(stage, PLANNED, "planned.yaml")
    agent = stage.book({"when": ".", "steps": [limited(7200)]})
    options = ("--workflow", flow, "--agent", agent, "--set", "validators.detect=false")
    ended = stage.ended("run", "a note", *options, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "quota"
    assert stage.data(run, "phase.failed") == []
    stage.book(PLANNER, worker(WRITE, SUBMIT))
    assert stage.resume(run, "--now")["ended"] == "all_done"


def test_a_limit_that_one_run_met_costs_another_no_prompt(stage: Stage) -> None:
    first, _ = ended_at_limit(stage, once(limited(7500)), worker(WROTE))
    (met,) = stage.data(first, "quota.hit")
    agent = f"playbook:{stage.folder}/book.json"
    ended = stage.ended("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent, code=1)
    second = str(ended["run"])
    assert ended["ended"] == "quota"
    assert stage.data(second, "turn.started") == []
    (heeded,) = stage.data(second, "quota.hit")
    assert (heeded["until"], heeded["resets_at"]) == (met["until"], met["resets_at"])
    assert f"learnt from run {first}" in stage.holdfast("show", second).out

    other = stage.book(worker(WROTE), name="other")
    assert stage.run("--workflow", "solo", stage.tasks("A"), "--agent", other)  # another account

    assert stage.resume(first, "--now")["ended"] == "all_done"  # its turn shows that the limit is over
    stage.book(worker(WROTE))
    third = stage.run("--workflow", "solo", stage.tasks("A"), "--agent", agent)
    assert stage.data(third, "quota.hit") == []
    assert stage.resume(second, "--now")["ended"] == "all_done"


@pytest.mark.parametrize("point", ["before", "torn", "after"])
def test_a_runner_killed_while_it_tells_the_others_of_a_limit_still_parks(stage: Stage, point: str) -> None:
    passes = Path(stage.folder, "passes")
    passes.touch()
    kill = {"HOLDFAST_CRASH": f"quota.save.{point}:1", "HOLDFAST_CRASH_FILE": str(passes)}
    agent = stage.book(once(limited(7500)), once(limited(7500)), worker(WROTE))
    with stage.start("run", "--workflow", "solo", stage.tasks("A"), "--agent", agent, env=kill) as process:
        process.communicate()
    assert process.returncode == -9
    run = stage.only_run()
    assert stage.ended("resume", run, code=1)["ended"] == "quota"
    assert stage.resume(run, "--now")["ended"] == "all_done"
    assert stage.file(run, "a.txt") == "a"


def test_accepted_work_of_a_limited_turn_is_not_continued(stage: Stage) -> None:
    tired = {"when": "the greeting", "once": True, "steps": [WROTE, limited(12)]}
    agent = stage.book(tired, {"when": "something else", "steps": [{"say": "something else it is"}]})
    chat = ("--workflow", "chat", "--agent", agent, "--set", "chat.idle=0")
    with stage.start("run", "write the greeting", *chat) as process:
        wait_for_event(process, "quota.hit")
        run = stage.only_run()
        stage.holdfast("accept", run)
        outcome(process)
    assert stage.data(run, "iteration.accepted")
    assert len(prompts_at(stage, run)) == 1
    stage.holdfast("send", run, "and now something else")
    stage.holdfast("wait", run)
    assert len(prompts_at(stage, run)) == 2
    assert "the greeting" not in stage.prompts(run)[1]
