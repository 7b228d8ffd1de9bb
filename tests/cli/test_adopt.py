"""`holdfast adopt`: sessions of other tools continue as runs, to the end that those tools would have reached."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli import foreign_sessions as foreign
from tests.cli.adopter import Adopter
from tests.support.variants import every


def mcp(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"mcp": {"tool": tool, "arguments": arguments}}


def case() -> dict[str, Any]:
    criteria = [{"criterion": "done", "met": True, "evidence": "the file"}]
    return mcp("submit_case", summary="It is done.", criteria=criteria)


EVALUATOR = {"when": "You are the evaluator", "steps": [mcp("submit_verdict", accept=True)]}


def test_finished_tilth_session_has_only_to_be_merged(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e0")
    before = foreign.fingerprint(session)
    found = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book())
    assert found["tasks"] == {"T-001": "done", "T-002": "done"}
    assert found["spent"] == {"tokens": 660, "dollars": pytest.approx(0.006)}
    adopter("resume", found["run"], code=4)
    adopter("merge", found["run"])
    assert (repo / "T-001.txt").exists()
    assert (repo / "T-002.txt").exists()
    assert foreign.fingerprint(session) == before


def test_failed_tilth_task_is_retried_on_its_work(adopter: Adopter, tmp_path: Path) -> None:
    """Tilth itself looks for the wrong subject and so shows its evaluator an empty diff."""
    session, repo = foreign.tilth(tmp_path, "e1")
    book = adopter.stage.book(
        {"when": "worker on task `T-001`", "steps": [{"run": "git status --short"}, {"say": "{{result}}"}, case()]},
        {"when": "worker on task `T-002`", "steps": [{"write": {"path": "T-002.txt", "text": "x\n"}}, case()]},
        EVALUATOR,
    )
    refs = foreign.git(repo, "for-each-ref")
    found = adopter.adopt(session, "--repo", str(repo), "--agent", book)
    assert found["tasks"] == {"T-001": "failed", "T-002": "pending"}
    assert set(refs.splitlines()) <= set(foreign.git(repo, "for-each-ref").splitlines())
    assert adopter.events(found["run"], "verdict.given")[0]["concern"] == "no work was performed in this task"
    adopter("resume", found["run"], code=6)
    adopter("resume", found["run"], "--on-issue", "retry", "--quiet")
    prompts = [
        event["text"] for event in adopter.events(found["run"], "message.recorded") if event["speaker"] == "user"
    ]
    assert any("no work was performed in this task" in text for text in prompts)
    diff = adopter("diff", found["run"]).out
    assert "T-001.txt" in diff
    assert "T-002.txt" in diff
    assert adopter.events(found["run"], "run.resumed")[0]["unwound"]
    subjects = foreign.git(repo, "log", "--format=%s", f"main..holdfast/{found['run']}/main")
    assert "FAILED" not in subjects


def test_interrupted_claude_turn_is_continued(adopter: Adopter, tmp_path: Path, user_home: Path) -> None:
    repo = Path(adopter.stage.project.path)
    path = foreign.claude_session(user_home, repo, fork=True)
    (repo / "notes.txt").write_text("kelp\n")
    before = foreign.fingerprint(user_home / ".claude")
    book = adopter.stage.book({"resume_context": True, "steps": [{"write": {"path": "built.txt", "text": "x\n"}}]})
    found = adopter.adopt(path, "--agent", book)
    assert found["state"] == "interrupted"
    assert found["spent"]["tokens"] == 440  # the branch that was left cost something too
    texts = [event["text"] for event in adopter.events(found["run"], "message.recorded")]
    assert texts == ["Write my notes about kelp", "I wrote notes.txt.", "Now build it"]
    adopter("resume", found["run"], "--quiet")
    prompt = [event["text"] for event in adopter.events(found["run"], "message.recorded")][3]
    assert "Now build it" in prompt
    diff = adopter("diff", found["run"]).out
    assert "notes.txt" in diff
    assert "built.txt" in diff
    assert foreign.fingerprint(user_home / ".claude") == before
    assert (repo / "notes.txt").read_text() == "kelp\n"


def test_finished_claude_session_waits_for_its_user(adopter: Adopter, user_home: Path) -> None:
    path = foreign.claude_session(user_home, Path(adopter.stage.project.path), finished=True)
    book = adopter.stage.book({"resume_context": True, "steps": [{"say": "More, then."}]})
    found = adopter.adopt(path, "--agent", book)
    assert adopter.events(found["run"], "run.created")[0]["workflow"] == "chat"


def test_native_session_is_kept_for_its_own_agent(adopter: Adopter, user_home: Path) -> None:
    foreign.claude_session(user_home, Path(adopter.stage.project.path))
    found = adopter("adopt", foreign.CLAUDE_ID, "--json", "--repo", adopter.stage.project.path).object
    assert found["agents"] == ["claude"]
    assert adopter.events(found["run"], "conversation.token_stored")[0]["token"] == foreign.CLAUDE_ID
    assert any("grows in Claude Code's own file" in finding for finding in found["findings"])


def test_codex_session_without_the_end_of_its_turn_is_interrupted(adopter: Adopter, user_home: Path) -> None:
    path = foreign.codex_session(user_home, Path(adopter.stage.project.path))
    book = adopter.stage.book({"resume_context": True, "steps": [{"say": "A README, as I saw."}]})
    found = adopter.adopt(path, "--agent", book)
    assert (found["state"], found["spent"]["tokens"]) == ("interrupted", 550)
    (message,) = adopter.events(found["run"], "message.recorded")
    assert message["text"] == "List my files"
    assert message["imported"]["source"] == path.name
    adopter("resume", found["run"], "--quiet")


def test_kandev_history_becomes_a_chat(adopter: Adopter, user_home: Path) -> None:
    path = foreign.kandev_session(user_home)
    found = adopter.adopt(path, "--repo", adopter.stage.project.path, "--agent", adopter.stage.book(), "--as", "readme")
    assert found["state"] == "waiting for its user"
    assert found["run"].startswith("readme-")
    assert found["entries"] == 4


def protocol_repo(adopter: Adopter) -> Path:
    repo = Path(adopter.stage.project.path)
    foreign.git(repo, "branch", "feature/auth")
    return repo


def test_protocol_log_without_issues_continues_by_itself(adopter: Adopter) -> None:
    repo = protocol_repo(adopter)
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)
    book = adopter.stage.book(
        EVALUATOR, {"when": "Build API", "steps": [{"write": {"path": "api.txt", "text": "x\n"}}, case()]}
    )
    found = adopter.adopt(log, "--agent", book)
    assert found["tasks"] == {"1": "complete", "2": "in_progress"}
    adopter("resume", found["run"], "--quiet")
    assert "api.txt" in adopter("diff", found["run"]).out


def test_protocol_log_with_an_issue_needs_a_decision(adopter: Adopter) -> None:
    repo = protocol_repo(adopter)
    failed = ("task.failed", {"taskId": "2", "error": "QA failed 3 rounds", "attempts": 3})
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2, failed)
    found = adopter.adopt(log, "--agent", adopter.stage.book())
    assert "skip" in adopter("resume", found["run"], code=6).err
    adopter("resume", found["run"], "--on-issue", "skip", "--quiet")


def test_the_later_of_two_events_with_one_number_counts(adopter: Adopter) -> None:
    """As the protocol says: the earlier one is no part of the history, and its error is no open issue."""
    repo = protocol_repo(adopter)
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)
    lines = log.read_text().splitlines()
    last = json.loads(lines[-1])
    wrong = {**last, "type": "task.failed", "data": {"taskId": "2", "error": "superseded", "attempts": 1}}
    lines.insert(-1, json.dumps(wrong))
    lines.append(lines[-1])
    foreign.write_lines(log, *lines)
    found = adopter.adopt(log, "--agent", adopter.stage.book())
    assert found["tasks"] == {"1": "complete", "2": "in_progress"}
    assert any("twice: the later one counts" in finding for finding in found["findings"])
    assert not adopter.events(found["run"], "task.failed")
    started = [event["taskId"] for event in adopter.events(found["run"], "task.started")]
    assert started.count("2") == 1
    assert adopter("analyze", found["run"], "--json").object["decision"]["case"] == "auto"


def test_protocol_log_without_checkpoint_needs_a_decision(adopter: Adopter) -> None:
    repo = protocol_repo(adopter)
    log = foreign.protocol_log(repo, *foreign.TASK_2)
    found = adopter.adopt(log, "--agent", adopter.stage.book())
    assert "reuse existing plan" in adopter("resume", found["run"], code=6).err


def test_agentmux_with_a_passed_review_continues_with_completing(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.agentmux(tmp_path, "a")
    before = foreign.fingerprint(repo)
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert found["tasks"] == {"P1": "done", "P2": "done"}
    assert found["next"].startswith("the review passed")
    assert foreign.git(repo, "show", f"holdfast/{found['run']}/main:f1.txt") == "from AgentMux"
    assert foreign.git(repo, "ls-tree", "--name-only", f"holdfast/{found['run']}/main").split() == [
        "README.md",
        "f1.txt",
    ]
    after = {path: data for path, data in foreign.fingerprint(repo).items() if "/.git/" not in path}
    assert after == {path: data for path, data in before.items() if "/.git/" not in path}
    adopter("resume", found["run"], "--quiet", code=6)
    started = [event["phase"] for event in adopter.events(found["run"], "phase.started")]
    assert started[-1] == "completing"


def test_agentmux_with_a_failed_review_continues_with_fixing(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.agentmux(tmp_path, "happy")
    (session / "07_review" / "review_reviewer_logic.yaml").write_text(
        "verdict: fail\nsummary: not yet\nfindings:\n- issue: f1 is empty\n  severity: high\n  location: f1.txt\n"
    )
    fix = {"when": "worker on task `fix-1`", "steps": [{"append": {"path": "f1.txt", "text": "fixed\n"}}, case()]}
    review = {"when": "reviewer", "steps": [mcp("submit_review", passed=True, summary="good")]}
    found = adopter.adopt(session, "--agent", adopter.stage.book(fix, EVALUATOR, review))
    assert found["next"].startswith("the review failed")
    adopter("resume", found["run"], "--quiet", code=6)
    started = [event["phase"] for event in adopter.events(found["run"], "phase.started")]
    assert started[-3:] == ["fixing", "reviewing", "completing"]


def test_dry_run_changes_nothing(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    refs = foreign.git(repo, "for-each-ref")
    found = adopter.adopt(session, "--repo", str(repo), "--dry-run", "--agent", adopter.stage.book())
    assert found["run"] is None
    assert found["next"].startswith("retry T-001")
    assert foreign.git(repo, "for-each-ref") == refs
    assert adopter("ls", "--json").out == ""


def test_list_finds_the_sessions_of_the_repository(adopter: Adopter, user_home: Path) -> None:
    repo = protocol_repo(adopter)
    foreign.protocol_log(repo, foreign.CHECKPOINT)
    foreign.claude_session(user_home, repo)
    foreign.codex_session(user_home, repo)
    foreign.kandev_session(user_home)
    found = adopter("adopt", "--list", "--json", "--repo", str(repo)).objects
    assert [row["tool"] for row in found] == ["resume-protocol", "claude-code", "codex", "kandev"]


def test_damaged_lines_are_counted_and_left_out(adopter: Adopter, user_home: Path) -> None:
    path = foreign.claude_session(user_home, Path(adopter.stage.project.path))
    with path.open("a") as file:
        file.write('{"torn": ')
    found = adopter.adopt(path, "--agent", adopter.stage.book())
    assert any("1 line is damaged" in finding for finding in found["findings"])


def test_session_in_use_is_refused(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    with (session / "events.jsonl").open("rb") as log:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=log, pass_fds=[log.fileno()])
    try:
        err = adopter("adopt", str(session), "--repo", str(repo), code=5).err
        assert "still in use by Tilth" in err
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    assert adopter("ls", "--json").out == ""


def test_second_adoption_of_a_session_is_refused_with_the_name_of_the_run(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    arguments = ("--repo", str(repo), "--agent", adopter.stage.book())
    first = adopter.adopt(session, *arguments)["run"]
    copy = shutil.copytree(session, tmp_path / "copy")
    for again in (session, copy):
        err = adopter("adopt", str(again), *arguments, code=5).err
        assert f"holdfast resume {first}" in err
        assert "--again" in err
    second = adopter.adopt(session, "--again", *arguments)["run"]
    assert {row["id"] for row in adopter("ls", "--json").objects} == {first, second}


def test_adopted_run_says_where_it_is_from(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    run = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book())["run"]
    shown = adopter("show", run).out
    assert f"from Tilth 0.2 or newer, session {foreign.TILTH_ID['e1']}" in shown
    assert str(session) in shown
    source = adopter("show", run, "--json").object["state"]["run"]["adopted"]
    assert (source["tool"], source["path"]) == ("tilth", str(session))
    (row,) = adopter("ls", "--json").objects
    assert (row["adopted"], row["adopted_path"]) == ("tilth", str(session))
    assert "[tilth]" in adopter("ls").out


def test_two_adopts_at_once_make_one_run(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    refs = foreign.git(repo, "for-each-ref")
    started = [adopter.started("adopt", str(session), "--repo", str(repo)) for _ in range(3)]
    codes = sorted(process.wait() for process in started)
    (run,) = [row["id"] for row in adopter("ls", "--json").objects]
    assert codes == [0, 5, 5]
    adopter("verify", run)
    left = [line for line in foreign.git(repo, "for-each-ref").splitlines() if run not in line]
    assert left == refs.splitlines()
    assert not (Path(adopter.stage.home) / "adopting").exists()


def test_adopts_of_several_sessions_at_once_do_not_disturb_each_other(adopter: Adopter, tmp_path: Path) -> None:
    sources = [foreign.tilth(tmp_path / str(number), "e1") for number in range(3)]
    started = [adopter.started("adopt", str(path), "--again", "--repo", str(repo)) for path, repo in sources]
    assert [process.wait() for process in started] == [0, 0, 0]
    for row in adopter("ls", "--json").objects:
        adopter("verify", row["id"])


def test_branches_of_a_killed_adopt_are_remembered_while_their_repository_is_away(
    adopter: Adopter, tmp_path: Path
) -> None:
    session, repo = foreign.tilth(tmp_path / "first", "e1")
    refs = foreign.git(repo, "for-each-ref")
    adopter.killed("stage.publish.before:1", "adopt", str(session), "--repo", str(repo))
    assert foreign.git(repo, "for-each-ref") != refs
    away = repo.rename(tmp_path / "away")
    other, there = foreign.tilth(tmp_path / "other", "e0")
    adopter.adopt(other, "--repo", str(there))
    told = adopter("doctor", code=1).out
    assert "was left by an adopt that was killed" in told
    assert f"in {repo}/.git, which is not there" in told
    assert (
        "can fix   " + str(Path(adopter.stage.home) / "adopting") in adopter("doctor", "--repo", str(away), code=1).out
    )
    adopter("doctor", "--repo", str(away), "--fix")
    assert foreign.git(away, "for-each-ref") == refs
    assert not (Path(adopter.stage.home) / "adopting").exists()


def test_branches_of_an_adopt_in_progress_are_no_orphans(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e0")
    adopter.killed("stage.publish.before:1", "adopt", str(session), "--repo", str(repo))
    (stage,) = (Path(adopter.stage.home) / "adopting").iterdir()
    with (stage / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the process that writes it
        adopter("doctor", "--repo", str(repo), "--fix")
    assert foreign.git(repo, "for-each-ref", "refs/heads/holdfast/")
    adopter("doctor", "--repo", str(repo), "--fix")
    assert not foreign.git(repo, "for-each-ref", "refs/heads/holdfast/")


def test_unknown_folder_is_refused_with_one_line(adopter: Adopter, tmp_path: Path) -> None:
    assert "is not a session that adopt knows" in adopter("adopt", os.fspath(tmp_path), code=2).err


KILLS = (
    *(f"adopt.log.{side}:1" for side in ("before", "after")),
    "journal.append.torn:3",
    *(f"stage.note.{side}:1" for side in ("before", "after")),
    *(f"adopt.refs.{side}:{number}" for side in ("before", "after") for number in (1, 2)),
    *(f"stage.publish.{side}:1" for side in ("before", "after")),
    *(f"effect.worktree.make.{side}:{number}" for side in ("before", "after") for number in (1, 2)),
)


@pytest.mark.parametrize("failpoint", every(3, KILLS))
def test_killed_adopt_leaves_a_whole_run_or_nothing(adopter: Adopter, tmp_path: Path, failpoint: str) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    before, refs = foreign.fingerprint(session), foreign.git(repo, "for-each-ref")
    arguments = ("--repo", str(repo), "--agent", adopter.stage.book())
    adopter.killed(failpoint, "adopt", str(session), *arguments)
    assert foreign.fingerprint(session) == before
    visible = [row["id"] for row in adopter("ls", "--json").objects]
    for run in visible:
        adopter("verify", run)
        assert set(adopter.states(run).values()) == {"FAILED", "PENDING"}
        adopter("resume", run, "--on-issue", "skip", "--quiet", code=1)  # T-002's worker has no script
    found = adopter.adopt(session, *arguments, *(["--again"] if visible else []))
    runs = {row["id"] for row in adopter("ls", "--json").objects}
    assert runs == {*visible, found["run"]}
    left = [line for line in foreign.git(repo, "for-each-ref").splitlines() if not any(run in line for run in runs)]
    assert left == refs.splitlines()
    assert not (Path(adopter.stage.home) / "adopting").exists()


def test_analyze_says_which_tool_wrote_it(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.tilth(tmp_path, "e1")
    shown = adopter("analyze", str(session)).out
    assert "A session of Tilth" in shown
    assert "retry T-001" in shown
    assert f"Next: holdfast adopt {session}" in shown
    review, _ = foreign.agentmux(tmp_path, "a")
    assert adopter("analyze", str(review), "--json").object["next_step"].startswith("the review passed")


def test_exported_protocol_log_is_adopted_again(adopter: Adopter) -> None:
    repo = protocol_repo(adopter)
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)
    found = adopter.adopt(log, "--agent", adopter.stage.book())
    exported = Path(adopter.stage.folder) / "auth" / "events.jsonl"
    exported.parent.mkdir()
    adopter("export", found["run"], "--as", "resume-protocol", "-o", str(exported))
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert {line["sid"] for line in lines} == {lines[0]["sid"]}
    assert lines[0]["data"]["command"] == "implement"
    assert "session.end" not in {line["type"] for line in lines}
    analysis = adopter("analyze", str(exported), "--json").object
    assert analysis["decision"]["case"] == "auto"
    again = adopter.adopt(exported, "--repo", str(repo), "--agent", adopter.stage.book())
    assert again["tasks"] == {"1": "complete", "2": "in_progress"}


def test_exported_finished_run_has_an_end(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e0")
    found = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book())
    lines = adopter("export", found["run"], "--as", "resume-protocol", "-o", "-").objects
    assert lines[-1]["type"] == "session.end"
    assert [line["data"]["taskId"] for line in lines if line["type"] == "task.completed"] == ["T-001", "T-002"]
