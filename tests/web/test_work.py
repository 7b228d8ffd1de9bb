"""What the API says about the work of a run: its changes, its picture over time, its proof, and the export."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, worker
from tests.support.wait import until
from tests.web.server import Server

HOSTILE = "<img src=x onerror=alert(1)>.txt"


def objects(stage: Stage) -> list[str]:
    top = Path(stage.project.path, ".git", "objects")
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())


def test_changes_are_listed_first_and_one_is_read(stage: Stage, stage_server: Server) -> None:
    """Odd names, too. Asking again, with nothing changed, writes no object, and a patch never changes."""
    names = ["hello.txt", "a b/ü\n.txt", HOSTILE, "-rf", ":(glob)x"]
    write = [{"write": {"path": name, "text": f"hello\n{name!r}\n"}} for name in names]
    run = stage.run("say hello", "--agent", stage.book(worker(*write)))
    worktree = Path(stage.home_of(run), "workspace")
    Path(os.fsdecode(os.fsencode(worktree) + b"/\xff.bin")).write_bytes(b"\0\1")
    listed = stage_server.get(f"/runs/{run}/diff").json
    assert listed["as_of"] == "worktree"
    files = {file["path"]: file for file in listed["files"]}
    assert set(files) == {*names, "\\xff.bin"}
    assert (files["hello.txt"]["added"], files["hello.txt"]["removed"]) == (2, 0)
    assert (files["\\xff.bin"]["added"], listed["added"]) == (None, 2 * len(names))
    before = objects(stage)
    assert stage_server.get(f"/runs/{run}/diff").json == listed
    assert objects(stage) == before
    for name, file in files.items():
        path = f"/runs/{run}/diff/{listed['old']}/{listed['new']}/file?path={quote(name, safe='')}"
        answer = stage_server.get(path)
        assert answer.status == 200, answer
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        patch = answer.body.decode()
        assert patch.count("diff --git ") == 1
        assert ("Binary files" in patch) == (file["added"] is None)
        again = stage_server.get(path, If_None_Match=answer.headers["ETag"])
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["", "../../etc/passwd", "missing.txt", "\0", ":/"])
def test_only_changed_files_are_read(stage: Stage, stage_server: Server, path: str) -> None:
    run = stage.run("say hello", "--agent", stage.book(worker({"write": {"path": "hello.txt", "text": "hello\n"}})))
    listed = stage_server.get(f"/runs/{run}/diff").json
    ends = f"{listed['old']}/{listed['new']}"
    assert stage_server.get(f"/runs/{run}/diff/{ends}/file?path={quote(path, safe='')}").status == 422
    for wrong in ("HEAD/main", f"{'0' * 40}/{'f' * 40}", f"--output=x/{listed['new']}"):
        assert stage_server.get(f"/runs/{run}/diff/{wrong}/file?path=hello.txt").status in (404, 422)
    assert stage_server.get(f"/runs/{run}/diff?task=nothing").status == 422


async def test_picture_grows_with_the_run(stage: Stage, stage_server: Server) -> None:
    first, second = (worker({"write": {"path": f"{name}.txt", "text": "x\n"}}, SUBMIT, task=name) for name in "ab")
    agent = stage.book(first, second, EVALUATE)
    run = stage.run("--workflow", "loop", stage.tasks("a", "b"), "--agent", agent)
    picture = stage_server.get(f"/runs/{run}/timeline").json
    lanes = {lane["id"]: lane for lane in picture["lanes"] if lane["kind"] == "task"}
    assert len(lanes) == 2
    assert all("completed" in {mark["kind"] for mark in lane["marks"]} for lane in lanes.values())
    assert all(lane["status"] == "COMPLETE" for lane in lanes.values())
    assert (picture["deaths"], picture["running"], picture["status"]) == ([], False, "done")
    assert stage_server.get(f"/runs/{run}/timeline").json == picture
    position = next(mark["position"] for lane in lanes.values() for mark in lane["marks"])
    (line,) = stage_server.get(f"/runs/{run}/events?before={position}&limit=1").json["lines"]
    assert line["position"] == position
    merged = stage_server.post(f"/runs/{run}/merge", {})
    assert merged.status == 200, merged
    later = stage_server.get(f"/runs/{run}/timeline").json
    assert later["position"] > picture["position"]
    assert [session["upkeep"] for session in later["sessions"]][-1]
    await until(lambda: stage_server.get(f"/runs/{run}").json["position"] == later["position"])


def test_proof_names_the_damage(stage: Stage, stage_server: Server) -> None:
    run = stage.run("say hello", "--agent", stage.book(worker({"write": {"path": "hello.txt", "text": "hello\n"}})))
    proof = stage_server.get(f"/runs/{run}/verify").json
    assert (proof["ok"], proof["problems"]) == (True, [])
    log = Path(stage.home_of(run), "events.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    damaged = stage_server.get(f"/runs/{run}/verify").json
    assert not damaged["ok"]
    assert damaged["problems"][0].startswith("line 4")


def test_export_is_a_file_and_nothing_runs_in_it(stage: Stage, stage_server: Server) -> None:
    """The server serves it as a download, without scripts of its own, and what an agent said is text."""
    run = stage.run("say hello", "--agent", stage.book(worker({"say": "<img src=x onerror=alert(1)>"})))
    answer = stage_server.get(f"/runs/{run}/export")
    assert answer.status == 200
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
    page = answer.body.decode()
    assert "<img" not in page
    assert "&lt;img src=x" in page


def test_hostile_text_is_data_in_every_answer(stage: Stage, stage_server: Server) -> None:
    """JSON that no browser takes for a page, and no answer with another type than it should have."""
    said: dict[str, Any] = {"say": "</script><script>alert(1)</script> \x1b]0;x\x07"}
    run = stage.run("say hello", "--agent", stage.book(worker(said)))
    for path in ("", "/events", "/conversations", "/timeline", "/queued", "/digest", "/points"):
        answer = stage_server.get(f"/runs/{run}{path}")
        assert answer.status == 200, answer
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        json.loads(answer.body)
