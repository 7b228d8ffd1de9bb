"""`holdfast merge` into the branch that is checked out: the files move with it, and nothing of the user's is lost."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import Program, failpoint_environment
from tests.cli.runs import log_of
from tests.support.cli_stage import HELLO, Stage, branch
from tests.support.crash_suite.warm_programs import KILLED
from tests.support.projects import Project, do_task, new_run, write


@pytest.fixture
def run_id(holdfast: Program, project: Project) -> str:
    """A run that changes `a.txt` and adds `n.txt`, from the branch that is checked out."""
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id, files={"a.txt": "by the run\n", "n.txt": "n\n", "sub/s.txt": "s\n"})
    return run_id


def events(holdfast: Program, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_of(holdfast.home, run_id).read_text().splitlines()]


def text(project: Project, name: str) -> str:
    return Path(project.path, name).read_text(encoding="utf-8")


def test_checked_out_branch_moves_with_its_files(holdfast: Program, project: Project, run_id: str) -> None:
    merged = holdfast("merge", run_id, "--json").object
    assert merged["commit"] == project.tip("main") == project.tip(branch(run_id))
    assert (text(project, "a.txt"), text(project, "n.txt")) == ("by the run\n", "n\n")
    assert project.git("status", "--porcelain") == ""
    assert holdfast("merge", run_id, "--json").object["already"] is True


def test_checked_out_branch_that_went_on_gets_a_merge_commit(holdfast: Program, project: Project, run_id: str) -> None:
    project.commit({"mine.txt": "m\n"}, "Mine")
    holdfast("merge", run_id)
    assert len(project.git("log", "-1", "--format=%P", "main").split()) == 2
    assert (text(project, "mine.txt"), text(project, "n.txt")) == ("m\n", "n\n")
    assert project.git("status", "--porcelain") == ""


def test_files_that_the_merge_does_not_touch_stay_as_they_are(holdfast: Program, project: Project, run_id: str) -> None:
    project.commit({"mine.txt": "m\n", "staged.txt": "1\n"}, "Mine")
    write(project.path, {"mine.txt": "changed\n", "staged.txt": "2\n", "untracked.txt": "u\n"})
    project.git("add", "staged.txt")
    before = project.git("status", "--porcelain")
    holdfast("merge", run_id)
    assert project.git("status", "--porcelain") == before
    assert text(project, "mine.txt") == "changed\n"


@pytest.mark.parametrize(
    ("name", "ignored"),
    [("a.txt", False), ("n.txt", False), ("n.txt", True), ("sub", False)],
    ids=["changed", "untracked", "ignored", "file where a folder comes"],
)
def test_differing_files_of_the_user_are_never_overwritten(
    holdfast: Program, project: Project, run_id: str, name: str, ignored: bool
) -> None:
    write(project.path, {name: "mine\n", **({".git/info/exclude": "n.txt\n"} if ignored else {})})
    before = project.footprint(), project.git("ls-files", "--stage")
    assert project.path in holdfast("merge", run_id, code=5).complaint
    assert text(project, name) == "mine\n"
    assert (project.footprint(), project.git("ls-files", "--stage")) == before
    os.unlink(os.path.join(project.path, name))
    holdfast("merge", run_id)
    assert project.git("status", "--porcelain") == ""


def test_a_checkout_in_the_middle_of_a_merge_is_left_alone(holdfast: Program, project: Project, run_id: str) -> None:
    project.git("switch", "--quiet", "-c", "side")
    project.commit({"mine.txt": "side\n"}, "Side")
    project.git("switch", "--quiet", "main")
    project.commit({"mine.txt": "main\n"}, "Main")
    project.git("merge", "side", check=False)
    before = project.footprint()
    assert "in the middle of a merge" in holdfast("merge", run_id, code=5).complaint
    assert project.footprint() == before


@pytest.mark.parametrize(
    "point", ["effect.merge.into.before:1", "checkout.forward.staged:1", "effect.merge.into.after:1"]
)
def test_killed_merge_is_finished_by_the_next(
    holdfast: Program, project: Project, run_id: str, tmp_path: Path, point: str
) -> None:
    write(project.path, {"n.txt": "n\n"})
    holdfast("merge", run_id, env=failpoint_environment(os.fspath(tmp_path), point), code=KILLED)
    assert text(project, "n.txt") == "n\n"
    holdfast("merge", run_id)
    assert project.tip("main") == project.tip(branch(run_id))
    assert project.git("status", "--porcelain") == ""
    holdfast("verify", run_id)


@pytest.fixture
def killer(project: Project, tmp_path: Path) -> Path:
    """Makes git kill itself and its caller while it writes the checkout, once: after `a.txt`, before `sub/s.txt`."""
    armed = tmp_path / "armed"
    script = tmp_path / "smudge"
    killing = f'rm {armed}; kill -9 $(ps -o ppid= -p "$PPID") "$PPID"'
    script.write_text(f"#!/bin/sh\n[ -e {armed} ] && {{ {killing}; }}\nexec cat\n", encoding="utf-8")
    script.chmod(0o755)
    project.git("config", "filter.slow.smudge", f"exec {script}")
    project.git("config", "filter.slow.clean", "cat")
    write(project.path, {".git/info/attributes": "s.txt filter=slow\n"})
    armed.touch()
    return armed


@pytest.mark.parametrize("then", ["merge", "doctor"])
def test_merge_killed_while_git_writes_files_is_finished(
    holdfast: Program, project: Project, run_id: str, killer: Path, then: str
) -> None:
    """The intent names both commits and the folder, so that any later command can finish it."""
    old = project.tip("main")
    holdfast("merge", run_id, code=KILLED, cold=True)
    assert not killer.exists()
    assert project.tip("main") == old
    assert text(project, "a.txt") == "by the run\n", "half of the files are written"
    assert not os.path.exists(os.path.join(project.path, "sub/s.txt"))
    (intent,) = [line for line in events(holdfast, run_id) if line["type"] == "effect.intended"][-1:]
    new = project.tip(branch(run_id))
    assert intent["data"]["arguments"].items() >= {"old": old, "new": new, "path": project.path}.items()
    if then == "doctor":
        holdfast("doctor", "--fix", code=0)
    else:
        holdfast("merge", run_id)
    assert project.tip("main") == new
    assert project.git("status", "--porcelain") == ""
    holdfast("verify", run_id)


def test_repair_of_a_killed_merge_leaves_a_changed_file_alone(
    holdfast: Program, project: Project, run_id: str, killer: Path
) -> None:
    old = project.tip("main")
    holdfast("merge", run_id, code=KILLED, cold=True)
    assert not killer.exists()
    write(project.path, {"a.txt": "mine\n"})
    assert "would overwrite a.txt" in holdfast("merge", run_id, code=5).complaint
    assert (project.tip("main"), text(project, "a.txt")) == (old, "mine\n")
    project.git("checkout", "--quiet", "a.txt")
    holdfast("merge", run_id)
    assert (project.tip("main"), text(project, "a.txt")) == (project.tip(branch(run_id)), "by the run\n")
    assert project.git("status", "--porcelain") == ""


def test_touched_file_is_no_change(holdfast: Program, project: Project, run_id: str) -> None:
    """As after copying the folder: git lists the file as changed until it compares its content."""
    os.utime(os.path.join(project.path, "a.txt"), (1, 1))
    holdfast("merge", run_id)
    assert project.git("status", "--porcelain") == ""


def test_hooks_of_the_user_run_in_the_checkout(
    holdfast: Program, project: Project, run_id: str, tmp_path: Path
) -> None:
    hook = Path(project.git_dir, "hooks", "post-merge")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\necho "$(id -u) $PWD $(cat a.txt)" > {tmp_path}/said\n', encoding="utf-8")
    hook.chmod(0o755)
    holdfast("merge", run_id)
    assert (tmp_path / "said").read_text() == f"{os.getuid()} {project.path} by the run\n"


def test_conflict_names_the_files_and_the_command(holdfast: Program, project: Project, run_id: str) -> None:
    project.commit({"a.txt": "mine\n"}, "Mine")
    before = project.footprint()
    said = holdfast("merge", run_id, code=1).complaint
    assert said.endswith(f"conflicts in a.txt; nothing changed. Merge it by hand: git merge {branch(run_id)}")
    assert project.footprint() == before


def test_merge_that_was_killed_with_half_of_its_files_is_finished(
    holdfast: Program, project: Project, run_id: str
) -> None:
    """As git leaves it: some files are written, the index and the branch are not."""
    write(project.path, {"a.txt": "by the run\n", "sub/s.txt": "s\n"})
    Path(project.git_dir, "index.lock").touch()
    holdfast("merge", run_id)
    assert project.tip("main") == project.tip(branch(run_id))
    assert project.git("status", "--porcelain") == ""


def test_untracked_seeds_do_not_block_the_merge_of_their_run(stage: Stage) -> None:
    write(stage.project.path, {"tests/one.txt": "1\n", "tests/two.txt": "2\n"})
    os.symlink("one.txt", f"{stage.project.path}/tests/link")
    options = ("--agent", stage.book(HELLO), "--seed", "tests")
    run = stage.holdfast("plan", "say hello", *options).out.strip()
    stage.run()
    stage.holdfast("merge", run)
    assert stage.project.tip("main") == stage.project.tip(branch(run))
    assert stage.project.git("status", "--porcelain") == ""
    assert text(stage.project, "tests/two.txt") == "2\n"


def hook(path: str, seen: str) -> str:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(f"#!/bin/sh\ntouch {seen}\n")
    Path(path).chmod(0o755)
    return path


@pytest.mark.parametrize("how", ["folder", "link"])
def test_hook_that_is_a_file_of_the_repository_does_not_run(
    holdfast: Program, project: Project, tmp_path: Path, how: str
) -> None:
    """An agent committed it: the user merges its work, and did not ask to execute it."""
    seen = tmp_path / "seen"
    names = ("post-merge", "post-checkout", "post-index-change")
    write(project.path, {f"team/{name}": "#!/bin/sh\n" for name in names})
    for name in names:
        Path(project.path, "team", name).chmod(0o755)
    project.git("add", "team")
    project.git("commit", "--quiet", "-m", "Hooks")
    run_id = new_run(holdfast.home, project)
    do_task(holdfast.home, run_id, files={f"team/{name}": f"#!/bin/sh\ntouch {seen}\n" for name in names})
    if how == "folder":
        project.git("config", "core.hooksPath", "team")
    else:
        for name in names:
            os.symlink(f"../../team/{name}", os.path.join(project.git_dir, "hooks", name))
    told = holdfast("merge", run_id).err
    assert not seen.exists()
    assert "not run: the hook" in told
    assert "post-merge" in told


def test_hook_outside_of_the_tree_runs(holdfast: Program, project: Project, run_id: str, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    hook(os.path.join(project.git_dir, "hooks", "post-merge"), str(seen))
    assert "not run" not in holdfast("merge", run_id).err
    assert seen.exists()
