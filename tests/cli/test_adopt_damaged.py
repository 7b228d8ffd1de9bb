"""`holdfast adopt` of sessions that are damaged, incomplete, older, or still in use."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli import foreign_sessions as foreign
from tests.cli.adopter import Adopter


@pytest.mark.parametrize("content", [None, b"", b'{"session_id": "2026'])
def test_tilth_session_with_a_torn_checkpoint_is_read_from_its_log(
    adopter: Adopter, tmp_path: Path, content: bytes | None
) -> None:
    """Tilth rewrites its checkpoint in place, so a kill can leave it empty."""
    session, repo = foreign.tilth(tmp_path, "e1")
    checkpoint = session / "checkpoint.json"
    checkpoint.unlink() if content is None else checkpoint.write_bytes(content)
    found = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book())
    assert found["tasks"] == {"T-001": "failed", "T-002": "pending"}
    assert found["spent"] == {"tokens": 1430, "dollars": pytest.approx(0.013)}
    assert any("checkpoint.json is missing or damaged" in finding for finding in found["findings"])
    source = adopter.events(found["run"], "run.adopted")[0]
    assert (source["session"], source["branch"]) == (foreign.TILTH_ID["e1"], f"session/{foreign.TILTH_ID['e1']}")


@pytest.mark.parametrize("lost", ["task-status.json", "events.jsonl", "summary.json", "progress.txt", "ledger"])
def test_tilth_session_without_one_of_its_files_keeps_the_states_of_its_tasks(
    adopter: Adopter, tmp_path: Path, lost: str
) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    (session / lost).rename(tmp_path / "lost")
    found = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book(), "--dry-run")
    assert found["tasks"] == {"T-001": "failed", "T-002": "pending"}
    assert found["next"].startswith("retry T-001")


def test_tilth_session_of_the_first_era_is_retried_as_well(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.seed_tilth(tmp_path, "e1")
    before = foreign.fingerprint(session)
    found = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book())
    assert found["tasks"] == {"T-001": "failed", "T-002": "pending"}
    assert (found["version"], found["spent"]["tokens"]) == ("seed era", 1430)
    adopter("resume", found["run"], "--on-issue", "retry", "--quiet", code=1)  # its worker has no script
    assert adopter.events(found["run"], "run.resumed")[0]["unwound"]
    prompts = [event["text"] for event in adopter.events(found["run"], "message.recorded") if not event.get("imported")]
    assert "T-001.txt exists" in prompts[0]
    assert "no work was performed in this task" in prompts[0]
    assert foreign.fingerprint(session) == before


def test_values_of_other_kinds_are_no_crash(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    checkpoint = json.loads((session / "checkpoint.json").read_text())
    checkpoint["usage"]["worker"] = {"prompt": 1e300, "eval": -5, "cost": "much"}
    checkpoint |= {"tokens_used": None, "future": [1], "status": 7}
    (session / "checkpoint.json").write_text(json.dumps(checkpoint))
    (session / "task-status.json").write_text('{"T-001": "failed", "T-002": "paused", "../../T-003": "failed"}')
    found = adopter.adopt(session, "--repo", str(repo), "--agent", adopter.stage.book())
    assert found["spent"]["tokens"] == 440
    assert any("unknown status paused" in finding for finding in found["findings"])
    assert found["tasks"]["T-001"] == "failed"


@pytest.mark.parametrize("content", [None, b"", b'{"feature_dir": "/ho'])
def test_agentmux_session_with_a_torn_state_continues_where_its_documents_show(
    adopter: Adopter, tmp_path: Path, content: bytes | None
) -> None:
    session, _ = foreign.agentmux(tmp_path, "happy")
    state = session / "state.json"
    state.unlink() if content is None else state.write_bytes(content)
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert found["next"].startswith("the review passed")
    assert any("state.json is missing or damaged" in finding for finding in found["findings"])
    assert adopter.events(found["run"], "run.adopted")[0]["branch"] == "feature/happy"


def test_log_of_a_session_folder_stands_for_the_folder(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    found = adopter.adopt(session / "events.jsonl", "--repo", str(repo), "--dry-run")
    assert (found["tool"], found["path"]) == ("tilth", str(session))


@contextmanager
def _process(*command: str, cwd: Path) -> Iterator[None]:
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _refused(adopter: Adopter, session: Path, *arguments: str) -> str:
    before = foreign.fingerprint(session)
    err: str = adopter("adopt", str(session), *arguments, code=5).err
    assert "nothing was changed" in err
    assert foreign.fingerprint(session) == before
    assert adopter("ls", "--json").out == ""
    return err


def test_session_with_a_process_in_its_worktree_is_refused(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    (session / "workspace").mkdir()
    with _process("cat", cwd=session / "workspace"):
        assert "works in its folder" in _refused(adopter, session, "--repo", str(repo))


def test_tilth_at_work_on_the_repository_is_refused_while_its_log_has_no_end(adopter: Adopter, tmp_path: Path) -> None:
    """`tilth run` has the session's id in no argument and no file open between two writes."""
    session, repo = foreign.tilth(tmp_path, "e1")
    log, checkpoint = session / "events.jsonl", session / "checkpoint.json"
    checkpoint.write_text(json.dumps({**json.loads(checkpoint.read_text()), "source": str(repo)}))
    program = tmp_path / "tilth"
    program.symlink_to("/bin/cat")
    with _process(str(program), cwd=repo):
        adopter.adopt(session, "--dry-run")  # the session has an end: that process works on another one
        foreign.write_lines(log, *log.read_text().splitlines()[:-1])
        assert "tilth works on its repository" in _refused(adopter, session)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_agentmux_session_in_an_active_tmux_session_is_refused(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.agentmux(tmp_path, "happy")
    adopter.env["TMUX_TMPDIR"] = str(tmp_path)
    tmux = ["tmux", "new-session", "-d", "-s", "agentmux-happy", "cat"]
    subprocess.run(tmux, env={**os.environ, "TMUX_TMPDIR": str(tmp_path)}, check=True)
    try:
        assert "the tmux session agentmux-happy is active" in _refused(adopter, session)
    finally:
        command = ["tmux", "kill-session", "-t", "=agentmux-happy"]
        subprocess.run(command, env={**os.environ, "TMUX_TMPDIR": str(tmp_path)}, check=True)
    adopter.adopt(session, "--dry-run", "--agent", adopter.stage.book())


@pytest.mark.parametrize("ending", ["killed", "interrupted", "done but for its status"])
def test_uncommitted_work_of_an_interrupted_tilth_task_is_its_own(
    adopter: Adopter, tmp_path: Path, ending: str
) -> None:
    """Ctrl-C writes a stop without an end of the task; a status is written after the event that the task is done."""
    session, repo = foreign.tilth(tmp_path, "e1")
    checkpoint = json.loads((session / "checkpoint.json").read_text())
    foreign.git(repo, "update-ref", f"refs/heads/{checkpoint['branch']}", "main")
    workspace = session / "workspace"
    foreign.git(repo, "worktree", "add", "-q", str(workspace), checkpoint["branch"])
    (workspace / "T-001.txt").write_text("half\n")
    lines: list[object] = list((session / "events.jsonl").read_text().splitlines()[:10])
    if ending == "interrupted":
        lines.append({"ts": "2026-11-15T18:26:09Z", "type": "stop", "payload": {"reason": "interrupted"}})
    elif ending != "killed":
        lines.append({"ts": "2026-11-15T18:26:09Z", "type": "task_done", "payload": {"task_id": "T-001"}})
    foreign.write_lines(session / "events.jsonl", *lines)
    (session / "task-status.json").write_text("{}")
    (session / "checkpoint.json").write_text(
        json.dumps({**checkpoint, "status": "running", "source": str(repo), "workspace": str(workspace)})
    )
    found = adopter.adopt(session, "--agent", adopter.stage.book())
    assert found["next"].startswith("continue T-001 on its work so far")
    branch = f"holdfast/{found['run']}"
    assert "T-001.txt" not in foreign.git(repo, "ls-tree", "--name-only", f"{branch}/main")
    assert "T-001.txt" in foreign.git(repo, "ls-tree", "--name-only", f"{branch}/T-001")


def test_names_that_no_path_can_have_are_no_crash(adopter: Adopter, tmp_path: Path) -> None:
    session, repo = foreign.tilth(tmp_path, "e1")
    names = {name: f"/a\0b/{name}" for name in ("branch", "workspace", "feature_dir", "source")}
    checkpoint = json.loads((session / "checkpoint.json").read_text())
    (session / "checkpoint.json").write_text(json.dumps({**checkpoint, **names}))
    adopter.adopt(session, "--repo", str(repo), "--dry-run", "--agent", adopter.stage.book())
    branch = {"feature": "a\0b", "branch": "feature/a\0b"}
    agent = {"name": "api", "task": "1", "branch": "work/a\0b"}
    started = ("task.started", {"taskId": "1", "summary": "one"})
    log = foreign.protocol_events(repo, ("session.start", branch), ("agent.spawned", agent), started)
    assert adopter.adopt(log, "--agent", adopter.stage.book())["tasks"] == {"1": "in_progress"}


def test_task_list_that_was_never_committed_is_read_from_the_checkout(adopter: Adopter, tmp_path: Path) -> None:
    session, _ = foreign.tilth(tmp_path, "e1")
    folder = Path(adopter.stage.project.path) / ".tilth" / "feat"
    folder.mkdir(parents=True)
    for task in ("T-001", "T-002", "T-003"):
        text = f"---\nid: {task}\ntitle: from the checkout\n---\n\n## Description\nWrite it.\n"
        (folder / f"{task}-write.md").write_text(text)
    where = ("--repo", adopter.stage.project.path, "--agent", adopter.stage.book())
    assert adopter.adopt(session, *where, "--dry-run")["tasks"] == {
        "T-001": "failed",
        "T-002": "pending",
        "T-003": "pending",
    }


def test_branches_that_a_protocol_log_does_not_know_are_named(adopter: Adopter) -> None:
    repo = Path(adopter.stage.project.path)
    for name in ("feature/auth", "work/auth/api", "work/auth/stray"):
        foreign.git(repo, "branch", name)
    log = foreign.protocol_log(repo, foreign.CHECKPOINT, *foreign.TASK_2)
    findings = adopter.adopt(log, "--agent", adopter.stage.book())["findings"]
    assert [text for text in findings if "left alone" in text] == [
        "work/auth/stray is in no event of its log; it is left alone"
    ]
    assert "work/auth/stray" in foreign.git(repo, "for-each-ref")
