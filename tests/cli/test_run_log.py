"""What the log has of each turn: inputs, ids, tasks, times, and turns in which nothing came."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.cli_stage import ACCEPT, CASE, EVALUATE, REJECT, SUBMIT, Stage, killed, wait_for_event, worker

TASKS = {
    "overview": "One page each.",
    "tasks": [{"id": name, "title": f"make {name}", "acceptance_criteria": ["works"]} for name in ("T-1", "T-2")],
}
NOTHING = {"end": "end_turn"}
WRITE = {"write": {"path": "note.txt", "text": "a\n"}}
LEARNED = {"mcp": {"tool": "submit_case", "arguments": {**CASE, "learnings": ["tests live in t/"]}}}


def chunk(text: str, message: str) -> dict[str, Any]:
    """A piece of a message that has an id."""
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": message}
    return {
        "send": {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "{{session}}", "update": update}}
    }


def streaks(stage: Stage, run: str) -> list[tuple[str, int]]:
    return [(event["agent"], event["data"]["streak"]) for event in stage.events(run, "turn.empty")]


def test_input_that_an_agent_gives_later_is_in_the_log(stage: Stage) -> None:
    late: list[dict[str, Any]] = [
        {"tool": {"id": "k", "title": "Terminal", "kind": "execute"}},
        {"tool_update": {"id": "k", "title": "make all", "input": {"command": "make all"}}},
        {"tool_done": {"id": "k"}},
    ]
    run = stage.run("make it", "--agent", stage.book(worker(*late, WRITE)))
    (detailed,) = stage.events(run, "tool.detailed")
    assert detailed["agent"] == "worker of T-1"
    assert (detailed["data"]["tool"], detailed["data"]["input"]) == ("make all", {"command": "make all"})
    (call,) = [d["call"] for d in stage.data(run, "tool.called") if d["tool"] == "Terminal"]
    assert detailed["data"]["call"] == call


def test_agents_message_ids_are_recorded(stage: Stage) -> None:
    agent = stage.book(worker(chunk("I begin. ", "m-1"), chunk("I am at it.", "m-1"), WRITE, chunk("Done.", "m-2")))
    run = stage.run("make it", "--agent", agent)
    said = [d for d in stage.data(run, "message.recorded") if d["speaker"] == "agent"]
    assert [(d["text"], d["message_id"]) for d in said] == [("I begin. I am at it.", "m-1"), ("Done.", "m-2")]
    (conversation,) = stage.holdfast("show", run, "--json").object["state"]["conversations"].values()
    assert conversation["last_message"] == "m-2"


def test_usage_and_ledger_and_learnings_are_whole(stage: Stage) -> None:
    spent = {"end": {"usage": {"input": 70, "output": 7}}}
    agent = stage.book(EVALUATE, worker(WRITE, LEARNED, spent, task="T-1"), worker(WRITE, SUBMIT, task="T-2"))
    run = stage.run("--workflow", "loop", stage.tasks("T-1", "T-2"), "--agent", agent)
    assert {d["task"] for d in stage.data(run, "usage.recorded")} == {"T-1"}
    learnt = [(d["taskId"], d["learnings"], d["reason"]) for d in stage.data(run, "learnings.proposed")]
    assert learnt == [("T-1", ["tests live in t/"], None), ("T-2", [], "the worker's case names none")]
    (given,) = [event["ts"] for event in stage.events(run, "verdict.given") if event["data"]["taskId"] == "T-1"]
    ledger = Path(stage.home_of(run), "ledger", "T-1.jsonl")
    (line,) = ledger.read_text().splitlines()
    assert json.loads(line)["ts"] == given
    assert datetime.fromisoformat(given).year > 2000
    ledger.unlink()
    stage.holdfast("resume", run, code=4)
    assert ledger.read_text().splitlines() == [line], "it is made again from the log"


def test_memory_channels_are_recorded_whole(stage: Stage) -> None:
    """Also those that are not there. A large guide leaves room for the overview, the plan and the ledger."""
    guide = "Run make check. " * 10_000
    stage.project.commit({"AGENTS.md": guide, "tasks.json": json.dumps(TASKS)}, "Guide")
    agent = stage.book(
        {"when": "(?s)You are the evaluator.*Prior iterations", "steps": [ACCEPT]},
        {"when": "You are the evaluator", "steps": [{"mcp": {"tool": "submit_verdict", "arguments": REJECT}}]},
        worker(WRITE, SUBMIT),
        {"when": "rejected your case", "steps": [{"write": {"path": "more.txt", "text": "b\n"}}, SUBMIT]},
    )
    caps = ("--set", "memory.total=6000", "--set", "memory.channel=5000")
    run = stage.run("--workflow", "loop", f"{stage.project.path}/tasks.json", "--agent", agent, *caps)
    loaded = [d for d in stage.data(run, "memory.loaded") if d["taskId"] == "T-1"]
    first = {row["name"]: row for row in loaded[0]["channels"]}
    assert first["AGENTS.md"] == {
        "name": "AGENTS.md",
        "present": True,
        "bytes": len(guide),
        "cut": True,
        "sha256": hashlib.sha256(guide.encode()).hexdigest()[:16],
        "sent": first["AGENTS.md"]["sent"],
    }
    assert 4_000 < first["AGENTS.md"]["sent"] < 5_100
    assert [first[name]["cut"] for name in ("overview", "plan")] == [False, False]
    assert [first[name]["present"] for name in ("overview", "plan", "ledger", "CLAUDE.md")] == [
        True,
        True,
        False,
        False,
    ]
    assert "One page each." in stage.prompts(run, "worker")[0]
    last = {row["name"]: row for row in loaded[-1]["channels"]}
    assert (last["ledger"]["present"], last["ledger"]["cut"]) == (True, False)
    assert last["ledger"]["sent"] > len("It proves nothing.")


def refused(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"mcp": {"tool": tool, "arguments": arguments, "expect": "error"}}


def test_reports_that_cannot_be_read_are_in_the_log(stage: Stage) -> None:
    """Each with its number, what is wrong with it, and the call itself."""
    agent = stage.book(
        {"when": "You are the evaluator", "steps": [refused("submit_verdict", accept="maybe"), ACCEPT]},
        worker(WRITE, refused("submit_case"), refused("submit_case", summary="done", criteria=[]), SUBMIT),
    )
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent)
    events = stage.events(run, "report.refused")
    found = [(event["agent"], event["data"]["tool"], event["data"]["attempt"]) for event in events]
    assert found == [
        ("worker of T-1", "submit_case", 1),
        ("worker of T-1", "submit_case", 2),
        ("evaluator of T-1", "submit_verdict", 1),
    ]
    missing, empty, maybe = [event["data"] for event in events]
    assert "summary" in missing["error"]
    assert json.loads(empty["raw"]) == {"summary": "done", "criteria": []}
    assert json.loads(maybe["raw"]) == {"accept": "maybe"}
    assert {(d["taskId"], d["iteration"]) for d in (missing, empty, maybe)} == {("T-1", 1)}


def test_refused_report_survives_the_runner(stage: Stage) -> None:
    """Killed before it took the refusal in, the next session does, once."""
    waits = {"wait_for": {"path": f"{stage.folder}/go"}}
    kills: list[dict[str, Any]] = [
        {"wait_for": {"path": f"{stage.folder}/pid"}},
        {"run": f"kill -9 $(cat {stage.folder}/pid)"},
    ]
    agent = stage.book(worker(refused("submit_case"), *kills, waits))
    with stage.start("run", "--workflow", "loop", stage.tasks("T-1"), "--agent", agent) as process:
        Path(stage.folder, "pid").write_text(str(process.pid))
        process.wait()
    Path(stage.folder, "go").touch()
    run = stage.only_run()
    stage.book(EVALUATE, {"when": "", "steps": [WRITE, SUBMIT]})
    stage.resume(run)
    assert [d["attempt"] for d in stage.data(run, "report.refused")] == [1]


def test_agent_that_says_nothing_ends_in_empty_responses(stage: Stage) -> None:
    """Though its turns end as if it were done."""
    agent = stage.book({"when": "", "steps": [NOTHING]})
    ended = stage.ended("run", "make it", "--agent", agent, code=1)
    run = str(ended["run"])
    assert ended["ended"] == "empty_responses"
    assert streaks(stage, run) == [("worker of T-1", 1), ("worker of T-1", 2), ("worker of T-1", 3)]
    assert [(d["error"], d["attempts"]) for d in stage.data(run, "task.failed")] == [("empty_responses", 3)]
    assert [d["learnings"] for d in stage.data(run, "learnings.proposed")] == [[]]
    _, *nudges = stage.prompts(run)
    assert all("Your last turn was empty" in nudge for nudge in nudges)

    stage.book({"when": "", "steps": [WRITE]})
    assert stage.resume(run, "--on-issue", "fix")["ended"] == "all_done"
    assert stage.file(run, "note.txt") == "a"


def test_one_empty_turn_costs_no_more_than_a_nudge(stage: Stage) -> None:
    agent = stage.book(
        worker(NOTHING), {"when": "Your last turn was empty", "steps": [WRITE, SUBMIT]}, EVALUATE, name="book"
    )
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent)
    assert streaks(stage, run) == [("worker of T-1", 1)]
    assert stage.file(run, "note.txt") == "a"


def test_turn_with_a_report_alone_is_not_empty(stage: Stage) -> None:
    """Not every agent shows its calls of the tools that it was given."""
    silent = {"mcp": {**SUBMIT["mcp"], "shown": False}}
    agent = stage.book({"when": "You are the evaluator", "steps": [{"mcp": {**ACCEPT["mcp"], "shown": False}}]})
    book = stage.book(worker({"run": {"command": "echo a > note.txt", "shown": False}}, silent), name="worker")
    run = stage.run(
        *("--workflow", "loop", stage.tasks("T-1"), "--agent", book, "--set", f"roles.evaluator.agent={agent}")
    )
    assert streaks(stage, run) == []


def test_evaluator_that_says_nothing_gives_no_verdict(stage: Stage) -> None:
    agent = stage.book({"when": "You are the evaluator|without a verdict", "steps": [NOTHING]}, worker(WRITE, SUBMIT))
    run = stage.run("--workflow", "loop", stage.tasks("T-1"), "--agent", agent, code=1)
    assert streaks(stage, run) == [("evaluator of T-1", number) for number in (1, 2, 3)]
    assert stage.data(run, "verdict.given") == []
    assert [d["error"] for d in stage.data(run, "task.failed")] == ["empty_responses"]


def test_killed_after_an_empty_turn_it_is_asked_again(stage: Stage) -> None:
    agent = stage.book({"when": "You are the worker", "steps": [NOTHING]}, {"when": "empty", "steps": [{"sleep": 60}]})
    with stage.start("run", "make it", "--agent", agent) as process:
        wait_for_event(process, "turn.empty")
        killed(process)
    run = stage.only_run()
    stage.book({"when": "", "steps": [WRITE]})
    assert stage.resume(run)["ended"] == "all_done"
    assert [streak for _, streak in streaks(stage, run)] == [1]
