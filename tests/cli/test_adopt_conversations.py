"""`holdfast adopt` of conversations: what of a session's file is its history, and which sessions are found."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli import foreign_sessions as foreign
from tests.cli.adopter import Adopter

Line = dict[str, Any]


def line(name: str, parent: str | None, kind: str, content: Any, **more: Any) -> Line:
    message = {"role": kind, "content": content, "id": more.pop("answer", f"msg-{name}")}
    message |= {"stop_reason": more.pop("stop")} if "stop" in more else {}
    common = {"sessionId": foreign.CLAUDE_ID, "version": "2.1.300", "timestamp": "2026-03-01T10:00:00.000Z"}
    return {"uuid": name, "parentUuid": parent, "type": kind, "message": message, **common, **more}


def call(name: str) -> list[Line]:
    return [{"type": "tool_use", "id": name, "name": "Bash", "input": {"command": "make"}}]


def result(name: str) -> list[Line]:
    return [{"type": "tool_result", "tool_use_id": name, "content": f"result of {name}"}]


def adopted(adopter: Adopter, home: Path, *lines: Any) -> dict[str, Any]:
    path = foreign.write_lines(home / ".claude" / "projects" / "here" / f"{foreign.CLAUDE_ID}.jsonl", *lines)
    before = foreign.fingerprint(home)
    found = adopter.adopt(path, "--repo", adopter.stage.project.path, "--agent", adopter.stage.book())
    assert foreign.fingerprint(home) == before
    return found


def texts(adopter: Adopter, run: str) -> list[str]:
    return [event["text"] for event in adopter.events(run, "message.recorded")]


def test_results_of_calls_at_once_belong_to_the_path(adopter: Adopter, user_home: Path) -> None:
    """Each result follows the line of its own call, so only the last one is above the newest message."""
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "do both"),
        line("a1", "u1", "assistant", call("t1"), answer="m1"),
        line("a2", "a1", "assistant", call("t2"), answer="m1"),
        line("r1", "a1", "user", result("t1")),
        line("r2", "a2", "user", result("t2")),
        line("a3", "r2", "assistant", "both are done"),
    )
    assert found["state"] == "waiting for its user"
    returned = adopter.events(found["run"], "tool.returned")
    assert [event["output"] for event in returned] == ["result of t1", "result of t2"]


def test_call_whose_result_leads_on_keeps_the_other_call_of_its_answer(adopter: Adopter, user_home: Path) -> None:
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "do both"),
        line("a1", "u1", "assistant", call("t1"), answer="m1"),
        line("a2", "a1", "assistant", call("t2"), answer="m1"),
        line("r2", "a2", "user", result("t2")),
        line("r1", "a1", "user", result("t1")),
        line("a3", "r1", "assistant", "both are done"),
    )
    assert [event["call"] for event in adopter.events(found["run"], "tool.called")] == ["t1", "t2"]
    assert found["entries"] == 6


def test_damaged_line_does_not_cut_off_what_was_said_before_it(adopter: Adopter, user_home: Path) -> None:
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "first"),
        line("a1", "u1", "assistant", "one"),
        json.dumps(line("u2", "a1", "user", "second"))[:50],
        line("a2", "u2", "assistant", "two"),
    )
    assert texts(adopter, found["run"]) == ["first", "one", "two"]
    assert any("1 line is damaged" in finding for finding in found["findings"])


def test_session_that_waits_for_its_user_is_continued_by_talking(adopter: Adopter, user_home: Path) -> None:
    path = foreign.write_lines(
        user_home / ".claude" / "projects" / "here" / f"{foreign.CLAUDE_ID}.jsonl",
        line("u1", None, "user", "go", cwd=adopter.stage.project.path),
        line("a1", "u1", "assistant", "gone"),
    )
    shown = adopter("adopt", str(path), "--as", "talk", "--agent", adopter.stage.book())
    assert "Next: holdfast chat talk-" in shown.out + shown.err


def test_repository_is_that_of_the_folder_where_the_session_began(adopter: Adopter, user_home: Path) -> None:
    """The shell of the session may be elsewhere at its end."""
    repo = adopter.stage.project.path
    path = foreign.write_lines(
        user_home / ".claude" / "projects" / "here" / f"{foreign.CLAUDE_ID}.jsonl",
        line("u1", None, "user", "go", cwd=repo),
        line("a1", "u1", "assistant", "gone", cwd="/"),
    )
    found = adopter.adopt(path, "--dry-run", "--agent", adopter.stage.book())
    assert Path(found["repo"]) == Path(repo) / ".git"


def test_goal_is_the_first_prompt_of_the_path(adopter: Adopter, user_home: Path) -> None:
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "the prompt that was taken back"),
        line("a1", "u1", "assistant", "no"),
        line("u2", None, "user", "the prompt that counts"),
        line("a2", "u2", "assistant", "yes"),
    )
    assert found["goal"] == "the prompt that counts"
    assert texts(adopter, found["run"]) == ["the prompt that counts", "yes"]


def test_subagents_are_no_part_of_the_conversation(adopter: Adopter, user_home: Path) -> None:
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "main"),
        line("a1", "u1", "assistant", call("t1")),
        line("s1", None, "user", "the subagent's prompt", isSidechain=True),
        line("s2", "s1", "assistant", "the subagent's answer", isSidechain=True),
        line("r1", "a1", "user", result("t1")),
        line("a2", "r1", "assistant", "done"),
        line("s3", "s2", "assistant", "a late word of the subagent", isSidechain=True),
    )
    assert texts(adopter, found["run"]) == ["main", "done"]


@pytest.mark.parametrize(("stop", "state"), [("tool_use", "interrupted"), ("end_turn", "waiting for its user")])
def test_reason_of_the_last_answer_says_whether_the_turn_ended(
    adopter: Adopter, user_home: Path, stop: str, state: str
) -> None:
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "build it"),
        line("a1", "u1", "assistant", "I run make now.", stop=stop),
    )
    assert found["state"] == state


def test_cost_of_a_session_counts(adopter: Adopter, user_home: Path) -> None:
    found = adopted(
        adopter,
        user_home,
        line("u1", None, "user", "build it"),
        {"type": "cost-state", "sessionId": foreign.CLAUDE_ID, "totalCostUSD": 0.25},
        line("a1", "u1", "assistant", "It is built."),
        {"type": "cost-state", "sessionId": foreign.CLAUDE_ID, "totalCostUSD": 0.75},
        {"type": "cost-state", "sessionId": foreign.CLAUDE_ID, "totalCostUSD": "much"},
    )
    assert found["spent"]["dollars"] == 0.75


def test_tokens_of_a_killed_codex_turn_count(adopter: Adopter, user_home: Path) -> None:
    path = foreign.codex_session(user_home, Path(adopter.stage.project.path))
    usage = {"thread_token_usage": {"input_tokens": 900, "output_tokens": 90}}
    foreign.write_lines(path, *path.read_text().splitlines(), {"type": "token_usage_record", "payload": usage})
    assert adopter.adopt(path, "--dry-run", "--agent", adopter.stage.book())["spent"]["tokens"] == 990


def test_secret_in_a_prompt_does_not_name_the_run(adopter: Adopter, user_home: Path) -> None:
    secret = "sk-ant-api03-" + "A1b2" * 12
    found = adopted(
        adopter, user_home, line("u1", None, "user", f"{secret} is my key"), line("a1", "u1", "assistant", "no")
    )
    assert secret not in found["goal"]
    assert "a1b2a1b2" not in found["run"]


def test_codex_log_without_its_first_line_is_read(adopter: Adopter, user_home: Path) -> None:
    repo = Path(adopter.stage.project.path)
    path = foreign.codex_session(user_home, repo)
    foreign.write_lines(path, '{"torn": ', *path.read_text().splitlines()[1:])
    found = adopter("adopt", foreign.CODEX_ID, "--json", "--repo", str(repo)).object
    assert found["session"] == foreign.CODEX_ID
    assert texts(adopter, found["run"]) == ["List my files"]


def test_kandev_history_keeps_the_arguments_and_failures_of_tools(adopter: Adopter, user_home: Path) -> None:
    path = foreign.write_lines(
        user_home / ".kandev" / "sessions" / "abc.jsonl",
        {"type": "user_message", "role": "user", "content": "Read it"},
        {"type": "tool_call", "tool_call_id": "c1", "tool_name": "read", "tool_args": {"path": "a.txt"}},
        {"type": "tool_result", "tool_call_id": "c1", "tool_name": "read", "tool_status": "error", "content": "none"},
        {"type": "agent_message", "content": "It is not there."},
    )
    found = adopter.adopt(path, "--repo", adopter.stage.project.path, "--agent", adopter.stage.book())
    assert adopter.events(found["run"], "tool.called")[0]["input"] == {"path": "a.txt"}
    assert adopter.events(found["run"], "tool.returned")[0]["status"] == "failed"


def test_sessions_are_listed_from_every_folder_and_worktree_of_the_repository(
    adopter: Adopter, tmp_path: Path, user_home: Path
) -> None:
    repo = Path(adopter.stage.project.path)
    (repo / "inside").mkdir()
    foreign.git(repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "worktree"))
    foreign.protocol_log(repo, foreign.CHECKPOINT)
    foreign.claude_session(user_home, tmp_path / "worktree")
    foreign.codex_session(user_home, repo / "inside")
    subagent = line("s1", None, "user", "a subagent", isSidechain=True)
    foreign.write_lines(user_home / ".claude" / "projects" / str(repo).replace("/", "-") / "agent-1.jsonl", subagent)
    os.mkfifo(user_home / ".codex" / "sessions" / "2026" / "03" / "01" / "rollout-pipe.jsonl")
    for folder in (repo, repo / "inside", tmp_path / "worktree"):
        found = adopter("adopt", "--list", "--json", "--repo", str(folder)).objects
        assert [row["tool"] for row in found] == ["resume-protocol", "claude-code", "codex"]


def test_session_in_a_folder_of_the_repository_is_found_there(adopter: Adopter) -> None:
    repo = Path(adopter.stage.project.path)
    inside = repo / "inside"
    foreign.protocol_log(repo, foreign.CHECKPOINT)
    inside.mkdir()
    shutil.move(repo / ".claude", inside / ".claude")
    for folder, expected in ((inside, ["resume-protocol"]), (repo, [])):
        found = adopter("adopt", "--list", "--json", "--repo", str(folder), code=0 if expected else 4)
        assert [row["tool"] for row in found.objects] == expected
    command = ("--json", "--dry-run", "--repo", str(inside), "--agent", adopter.stage.book())
    assert adopter("adopt", "auth", *command).object["path"].startswith(str(inside))


def test_whole_id_is_preferred_to_one_that_only_starts_so(adopter: Adopter) -> None:
    repo = Path(adopter.stage.project.path)
    log = foreign.protocol_log(repo, foreign.CHECKPOINT)
    foreign.write_lines(log.parent.parent / "auth-system" / log.name, *log.read_text().splitlines())
    (repo / "auth").mkdir()  # a folder with the same name, but no session
    command = ("--json", "--dry-run", "--repo", str(repo), "--agent", adopter.stage.book())
    assert adopter("adopt", "auth", *command).object["path"] == str(log)
    assert "could be any of" in adopter("adopt", "aut", *command, code=2).err


def test_session_behind_many_newer_ones_is_found_by_its_id(adopter: Adopter, user_home: Path) -> None:
    repo = Path(adopter.stage.project.path)
    path = foreign.codex_session(user_home, repo)
    content = path.read_text()
    os.utime(path, (1, 1))
    for number in range(205):
        other = path.with_name(f"rollout-2026-04-01T10-00-00-02999999-aaaa-7bbb-8ccc-{number:012}.jsonl")
        other.write_text(content.replace(str(repo), "/elsewhere"))
    found = adopter("adopt", foreign.CODEX_ID[:13], "--json", "--dry-run", "--repo", str(repo)).object
    assert found["path"] == str(path)
    assert [row["path"] for row in adopter("adopt", "--list", "--json", "--repo", str(repo)).objects] == [str(path)]


def test_repository_that_is_gone_is_named(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.tilth(tmp_path, "e1")
    command = ("adopt", str(session), "--json", "--dry-run", "--agent", adopter.stage.book())
    err = adopter(*command, code=2).err  # in a folder that is in no repository
    assert err == "holdfast: its repository /home/dev/lab/e1/repo is not there; pass where it is now: --repo DIR\n"
    found = adopter.stage.holdfast(*command, env=adopter.env).object
    assert any("/home/dev/lab/e1/repo is not there" in finding for finding in found["findings"])


@pytest.mark.parametrize("kind", ["claude-code", "resume-protocol"])
def test_claude_at_work_in_the_folder_of_a_session_is_refused(
    adopter: Adopter, tmp_path: Path, user_home: Path, kind: str
) -> None:
    repo = Path(adopter.stage.project.path)
    path = foreign.claude_session(user_home, repo) if kind == "claude-code" else foreign.protocol_log(repo)
    program = tmp_path / "claude"
    program.symlink_to("/bin/cat")
    process = subprocess.Popen([program], cwd=repo, stdin=subprocess.PIPE)
    try:
        err = adopter("adopt", str(path), "--agent", adopter.stage.book(), code=5).err
        assert "a process works in its folder" in err
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    adopter("adopt", str(path), "--dry-run", "--agent", adopter.stage.book())


def test_uncommitted_files_count_while_the_checkout_is_on_the_branch_of_a_protocol_log(adopter: Adopter) -> None:
    repo = Path(adopter.stage.project.path)
    foreign.git(repo, "branch", "feature/auth")
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)
    (repo / "loose.txt").write_text("loose\n")
    command = (log, "--again", "--agent", adopter.stage.book())
    on_main = adopter.adopt(*command)["run"]
    foreign.git(repo, "checkout", "-q", "feature/auth")
    on_branch = adopter.adopt(*command)["run"]
    files = [foreign.git(repo, "ls-tree", "-r", "--name-only", f"holdfast/{run}/main") for run in (on_main, on_branch)]
    assert "loose.txt" not in files[0]
    assert "loose.txt" in files[1]
    assert ".claude" not in files[1]


def test_gaps_and_versions_of_a_protocol_log_are_said(adopter: Adopter) -> None:
    repo = Path(adopter.stage.project.path)
    foreign.git(repo, "branch", "feature/auth")
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)
    lines = [json.loads(text) for text in log.read_text().splitlines()]
    del lines[5]
    foreign.write_lines(log, *lines, {**lines[-1], "seq": 40, "v": 9})
    findings = adopter.adopt(log, "--dry-run", "--agent", adopter.stage.book())["findings"]
    assert any("events are missing, from seq 5 on" in finding for finding in findings)
    assert any("unknown version 9" in finding for finding in findings)


def test_analyze_of_a_protocol_log_names_the_way_to_adopt_it(adopter: Adopter) -> None:
    log = foreign.protocol_log(Path(adopter.stage.project.path), foreign.CHECKPOINT, *foreign.TASK_2)
    assert f"holdfast adopt {log}" in adopter("analyze", str(log)).err
    assert adopter("analyze", str(log), "--json").object["next_command"] == f"holdfast adopt {log}"
