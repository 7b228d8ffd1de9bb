"""`holdfast export --bundle` and `import`: a run moves to another machine in one file, whole or not at all."""

import gzip
import hashlib
import io
import json
import os
import signal
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.store.files.layout import run_folder
from tests.cli.foreign_sessions import git
from tests.cli.program import Program, failpoint_environment
from tests.support.cli_stage import HANG, HELLO, Stage, branch, killed, worker
from tests.support.variants import first

Members = dict[str, bytes]


@pytest.fixture
def elsewhere(stage: Stage, tmp_path: Path) -> Program:
    """Another machine: another home, and a clone of the repository at another path."""
    clone = tmp_path / "clone"
    stage.project.git("clone", "-q", "--no-local", stage.project.path, str(clone))
    return stage.holdfast.elsewhere(home=str(tmp_path / "other-home"), cwd=str(clone))


def test_ordinary_run_needs_no_trust(stage: Stage, elsewhere: Program) -> None:
    command = [sys.executable, "-m", "holdfast", "agent", "playbook", stage.book(HELLO).partition(":")[2]]
    config = Path(stage.holdfast.environment()["XDG_CONFIG_HOME"], "holdfast", "config.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[agents.mine]\ncommand = {json.dumps(command)}\n")
    run = stage.run("say hello kelp", "--agent", "mine")
    assert elsewhere("import", _export(stage, run), "--json").object["run"] == run


@pytest.fixture
def interrupted(stage: Stage) -> str:
    """A run whose runner was killed in a turn, with an uncommitted file in the worktree."""
    half = worker({"write": {"path": "half.txt", "text": "half\n"}}, HANG)
    rest = {"resume_context": True, "steps": [{"write": {"path": "rest.txt", "text": "rest\n"}}]}
    process = stage.start("run", "write both", "--agent", stage.book(rest, half))
    stage.hangs()
    killed(process)
    return stage.only_run()


@pytest.fixture
def finished(stage: Stage) -> str:
    return stage.run("say hello kelp", "--agent", stage.book(HELLO))


def _export(stage: Stage, run: str) -> str:
    path = os.path.join(stage.folder, "run.bundle")
    assert "`holdfast import run.bundle`" in stage.holdfast("export", run, "--bundle", path).err
    return path


def _members(path: str) -> Members:
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def _write(path: str, members: Members, *extra: tarfile.TarInfo) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)


def _nothing_there(program: Program) -> None:
    assert program("ls", "--json").out == ""
    assert git(program.cwd, "for-each-ref", "refs/heads/holdfast", "refs/holdfast") == ""
    assert not Path(program.home, "adopting").exists()


def test_finished_run_is_the_same_on_another_machine(stage: Stage, elsewhere: Program, finished: str) -> None:
    before = stage.holdfast("show", finished, "--json").object["state"]
    path = _export(stage, finished)
    assert elsewhere("import", "--trust", path, "--json").object["run"] == finished
    after = elsewhere("show", finished, "--json").object["state"]
    for name in ("tasks", "conversations", "budget", "branches"):
        assert after[name] == before[name]
    assert os.path.samefile(after["run"]["repo"], os.path.join(elsewhere.cwd, ".git"))
    verdict = elsewhere("verify", finished, "--json").object
    assert verdict["whole"]
    assert verdict["anchors"]["held"]
    elsewhere("merge", finished)
    assert Path(elsewhere.cwd, "hello.txt").read_text() == "hello\n"
    assert "is here already" in elsewhere("import", "--trust", path, code=2).complaint


def test_interrupted_run_continues_with_its_uncommitted_files(
    stage: Stage, elsewhere: Program, interrupted: str
) -> None:
    path = _export(stage, interrupted)
    elsewhere("import", "--trust", path)
    elsewhere("resume", interrupted, "--quiet")
    shown = git(elsewhere.cwd, "ls-tree", "--name-only", branch(interrupted)).split()
    assert {"half.txt", "rest.txt"} <= set(shown)
    assert elsewhere("verify", interrupted).out.startswith("intact")


def test_message_that_waits_is_taken_along(stage: Stage, elsewhere: Program, interrupted: str) -> None:
    stage.holdfast("send", interrupted, "mind the kelp")
    elsewhere("import", "--trust", _export(stage, interrupted))
    elsewhere("resume", interrupted, "--quiet")
    assert "mind the kelp" in elsewhere("logs", interrupted, "--json", "--type", "message.recorded").out


def test_archived_and_compressed_run_is_exported_too(stage: Stage, elsewhere: Program, finished: str) -> None:
    stage.holdfast("archive", finished)
    stage.holdfast("prune", finished, "--to", "transcripts", "-y")
    elsewhere("import", "--trust", _export(stage, finished))
    assert "withheld by rule transcripts" in elsewhere("verify", finished).out


def test_run_at_work_is_not_exported(stage: Stage) -> None:
    process = stage.start("run", "write both", "--agent", stage.book(worker(HANG)))
    stage.hangs()
    path = os.path.join(stage.folder, "run.bundle")
    assert "is owned by pid" in stage.holdfast("export", stage.only_run(), "--bundle", path, code=5).complaint
    killed(process)
    assert not os.path.exists(path)


def test_other_repository_is_refused(stage: Stage, elsewhere: Program, finished: str, tmp_path: Path) -> None:
    path = _export(stage, finished)
    other = tmp_path / "unrelated"
    stage.project.git("init", "-q", str(other))
    commit = ("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "other")
    stage.project.git("-C", str(other), *commit)
    assert "no commit in common" in elsewhere("import", "--trust", path, "--repo", str(other), code=5).complaint
    assert "--repo DIR" in elsewhere("import", "--trust", path, "--repo", stage.folder, code=2).complaint
    _nothing_there(elsewhere)


def _edit_log(members: Members) -> None:
    _replace(members, "events.jsonl", members["events.jsonl"].replace(b"kelp", b"help", 1))


def _cut_log(members: Members) -> None:
    lines = members["events.jsonl"].splitlines(keepends=True)
    _replace(members, "events.jsonl", b"".join(lines[:-1]))


def _replace(members: Members, name: str, content: bytes) -> None:
    """With the size and digest that fit: what is left to find it is the chain."""
    manifest = json.loads(members["manifest.json"])
    for file in manifest["files"]:
        if file["name"] == name:
            file |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    members[name] = content
    members["manifest.json"] = json.dumps(manifest).encode()


def _damage(members: Members) -> None:
    members["repo.bundle"] = members["repo.bundle"][:-1] + b"x"


def _garbage(members: Members) -> None:
    _replace(members, "repo.bundle", b"not of git")


def _cut_commits(members: Members) -> None:
    _replace(members, "repo.bundle", members["repo.bundle"][:-30])


def _bad_ref(name: str) -> Callable[[Members], None]:
    def add(members: Members) -> None:
        manifest = json.loads(members["manifest.json"])
        manifest["refs"][f"refs/heads/holdfast/{manifest['run']}/{name}"] = "0" * 40
        members["manifest.json"] = json.dumps(manifest).encode()

    return add


def _lose_file(members: Members) -> None:
    del members["repo.bundle"]


def _manifest(**changes: Any) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), **changes}).encode()

    return change


def _add_file(name: str) -> Callable[[Members], None]:
    def add(members: Members) -> None:
        manifest = json.loads(members["manifest.json"])
        manifest["files"].append({"name": name, "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()})
        members["manifest.json"] = json.dumps(manifest).encode()
        members[name] = b"x"

    return add


def _unlisted(members: Members) -> None:
    members["../../../../escaped"] = b"x"


HOSTILE = (
    (_edit_log, "is not whole"),
    (_cut_log, "not the one that was exported"),
    (_damage, "is damaged"),
    (_garbage, "git cannot read the commits in the bundle"),
    (_cut_commits, "git cannot read the commits in the bundle"),
    (_bad_ref("a b"), "is not one of its run"),
    (_bad_ref("a\0b"), "is not one of its run"),
    (_bad_ref("a.lock"), "is not one of its run"),
    (_lose_file, "lacks repo.bundle"),
    (_unlisted, "list of files does not"),
    (_add_file("../escaped"), "is not one of a run"),
    (_add_file("/escaped"), "is not one of a run"),
    (_add_file("artifacts/../../escaped"), "is not one of a run"),
    (_add_file("artifacts/x/./y"), "is not one of a run"),
    (_add_file("owner.lock"), "is not one of a run"),
    (_manifest(run="../escaped-abc234"), "is no id of a run"),
    (_manifest(refs={"refs/heads/main": "0" * 40}), "is not one of its run"),
    (_manifest(refs={"refs/holdfast/chain/other-abc234": "0" * 40}), "is not one of its run"),
    (_manifest(format=99), "format 99"),
    (_manifest(files=7), "not a bundle that this Holdfast reads"),
)


def test_bundle_that_was_changed_is_refused(stage: Stage, elsewhere: Program, finished: str) -> None:
    path = _export(stage, finished)
    original = _members(path)
    before = {str(file) for file in Path(stage.folder).rglob("escaped*")}
    for tamper, reason in HOSTILE:
        members = dict(original)
        tamper(members)
        _write(path, members)
        err = elsewhere("import", "--trust", path, code=5 if tamper in (_edit_log, _cut_log) else 2).complaint
        assert reason in err
        _nothing_there(elsewhere)
    assert {str(file) for file in Path(stage.folder).rglob("escaped*")} == before


def test_link_in_a_bundle_is_refused(stage: Stage, elsewhere: Program, finished: str) -> None:
    path = _export(stage, finished)
    members = _members(path)
    log = members.pop("events.jsonl")
    link = tarfile.TarInfo("events.jsonl")
    link.type, link.linkname, link.size = tarfile.SYMTYPE, "/etc/passwd", 0
    _write(path, members, link)
    assert log
    assert "list of files does not" in elsewhere("import", "--trust", path, code=2).complaint
    _nothing_there(elsewhere)


def test_bundle_in_a_folder_that_is_not_there_is_refused(stage: Stage, finished: str) -> None:
    path = os.path.join(stage.folder, "missing", "run.bundle")
    assert "cannot write beside the bundle" in stage.holdfast("export", finished, "--bundle", path, code=2).complaint


@pytest.mark.parametrize("content", [b"", b"not a bundle", gzip.compress(b"not a tar file" * 100, mtime=0)])
def test_other_file_is_refused_with_one_line(elsewhere: Program, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    assert "bundle" in elsewhere("import", str(path), code=2).complaint
    _nothing_there(elsewhere)


KILLS = (
    *(f"import.files.{side}:1" for side in ("before", "after")),
    *(f"stage.note.{side}:1" for side in ("before", "after")),
    *(f"import.refs.{side}:1" for side in ("before", "after")),
    *(f"journal.append.{side}:{number}" for side in ("before", "torn", "after") for number in (1, 2)),
    *(f"stage.publish.{side}:1" for side in ("before", "after")),
)


@pytest.mark.parametrize("failpoints", first(*((KILLS[part::3],) for part in range(3))))
def test_killed_import_leaves_a_whole_run_or_nothing(
    stage: Stage, finished: str, tmp_path: Path, failpoints: Sequence[str]
) -> None:
    path = _export(stage, finished)
    for number, failpoint in enumerate(failpoints):
        place = tmp_path / str(number)
        place.mkdir()
        git(place, "clone", "-q", stage.project.path, "clone")
        machine = stage.holdfast.elsewhere(home=str(place / "home"), cwd=str(place / "clone"))
        environment = failpoint_environment(str(place), failpoint)
        machine("import", "--trust", path, code=-signal.SIGKILL, cold=True, env=environment)
        is_there = failpoint == "stage.publish.after:1"
        assert bool(machine("ls", "--json").out) == is_there
        machine("import", "--trust", path, code=2 if is_there else 0)
        assert machine("verify", finished).out.startswith("intact")
        machine("doctor", "--fix")
        assert not Path(machine.home, "adopting").exists()
        assert os.path.isdir(run_folder(machine.home, finished))


@pytest.mark.parametrize("side", ["before", "after"])
def test_killed_export_leaves_a_whole_bundle_or_none(
    stage: Stage, elsewhere: Program, finished: str, side: str
) -> None:
    path = os.path.join(stage.folder, "run.bundle")
    folder = os.path.join(stage.folder, "failpoint")
    os.mkdir(folder)
    environment = failpoint_environment(folder, f"bundle.write.{side}:1")
    stage.holdfast("export", finished, "--bundle", path, code=-signal.SIGKILL, cold=True, env=environment)
    assert os.path.exists(path) == (side == "after")
    elsewhere("import", "--trust", _export(stage, finished))
    assert not list(Path(stage.folder).glob(".holdfast-bundle-*"))


def test_bundle_that_decides_what_runs_here_needs_trust(stage: Stage, elsewhere: Program) -> None:
    """Its log is obeyed by `resume`: a stranger's hook would be executed outside every runtime."""
    mark = Path(stage.folder, "hooked")
    hook = ("--set", f'hooks.session_start=[["touch", "{mark}"]]')
    half = worker({"write": {"path": "half.txt", "text": "half\n"}}, HANG)
    rest = {"resume_context": True, "steps": [{"write": {"path": "rest.txt", "text": "rest\n"}}]}
    process = stage.start("run", "write both", "--agent", stage.book(rest, half), *hook)
    stage.hangs()
    killed(process)
    run = stage.only_run()
    path = _export(stage, run)
    mark.unlink()
    err = elsewhere("import", path, code=5).complaint
    assert "hooks = " in err
    assert "agent = 'playbook:" in err
    assert "--trust" in err
    _nothing_there(elsewhere)
    elsewhere("import", path, "--trust")
    elsewhere("resume", run, "--quiet")
    assert mark.exists()


def test_imported_run_goes_back_to_points_from_before_the_move(stage: Stage, elsewhere: Program, finished: str) -> None:
    elsewhere("import", "--trust", _export(stage, finished))
    plan = elsewhere("rewind", finished, "--to", "start", "--dry-run", "--json").object
    assert plan["abandoned"]["calls"] == [], "what an agent wrote in its worktree was in the other home"
    assert [file["path"] for change in plan["worktrees"] for file in change["files"]] == ["hello.txt"]
    elsewhere("rewind", finished, "--to", "turn-1", "-y")
    assert Path(elsewhere.home, "runs", finished, "tasks", "T-1", "hello.txt").read_text() == "hello\n"
    elsewhere("rewind", finished, "--undo", "-y")
    assert elsewhere("ls", "--json").object["status"] == "done"
    elsewhere("rewind", finished, "--to", "turn-1", "-y")
    elsewhere("resume", finished)
    assert elsewhere("ls", "--json").object["status"] == "done"
    elsewhere("merge", finished)
    assert Path(elsewhere.cwd, "hello.txt").read_text() == "hello\n"
    assert elsewhere("verify", finished, "--json").object["whole"]
