"""Facts of a repository and a confined agent: it reads; it commits when it may; it never gets at what our git obeys."""

import os
import secrets

import pytest
from msgspec import structs

from holdfast.agents.launch import Launch, Runtime
from holdfast.agents.process.tree import spawn
from holdfast.leaf.errors import BadInput
from tests.support.projects import Project

BRANCH = "holdfast/run-1/task"


@pytest.fixture
def project(tmp_path: os.PathLike[str]) -> Project:
    return Project.make(os.fspath(tmp_path))


@pytest.fixture
def worktree(project: Project, tmp_path: os.PathLike[str]) -> str:
    folder = os.path.join(tmp_path, "worktree")
    project.git("worktree", "add", "--quiet", "-b", BRANCH, folder)
    return folder


async def run(runtime: Runtime, cwd: str, script: str) -> tuple[str, int | None]:
    launch = Launch(("/bin/sh", "-c", script), cwd, {}, f"test/{secrets.token_hex(6)}", runtime=runtime)
    async with spawn(launch) as tree:
        tree.stdin.close()
        said = (await tree.stdout.read()).decode()
        await tree.wait_for_exit()
        return said, tree.exit_code


async def test_it_reads_the_repository(runtime: Runtime, worktree: str) -> None:
    script = "echo 4 >> a.txt; git status --short && git log --format=%s && git diff --stat"
    said, code = await run(runtime, worktree, script)
    assert code == 0, said
    assert said.startswith(" M a.txt\nBegin\n a.txt | 1 +")


async def test_it_cannot_commit_unless_it_may(runtime: Runtime, worktree: str, project: Project) -> None:
    before = project.git("rev-parse", BRANCH)
    said, code = await run(runtime, worktree, "echo 4 >> a.txt; git commit -am four")
    assert code != 0
    assert "Read-only file system" in said
    assert project.git("rev-parse", BRANCH) == before


async def test_it_commits_to_its_own_branch_when_it_may(runtime: Runtime, worktree: str, project: Project) -> None:
    may = structs.replace(runtime, commits=True)
    said, code = await run(may, worktree, "echo 4 >> a.txt; echo n > new; git add -A && git commit -qm four")
    assert code == 0, said
    assert project.git("log", "--format=%s", BRANCH).split() == ["four", "Begin"]
    assert project.git("status", "--short", at=worktree) == ""
    assert project.git("fsck", "--strict", check=True) == ""


@pytest.mark.parametrize("commits", [False, True], ids=["reading", "committing"])
@pytest.mark.parametrize(
    "way_out",
    [
        "git config core.fsmonitor /tmp/evil",
        "git config --worktree core.fsmonitor /tmp/evil",
        'echo evil > "$(git rev-parse --git-common-dir)/hooks/pre-commit"',
        'cd "$(git rev-parse --git-common-dir)" && mkdir -p info && echo evil > info/attributes',
        'echo /tmp > "$(git rev-parse --git-dir)/commondir"',
        'mv "$(git rev-parse --git-dir)/commondir" /tmp',
        'echo evil > "$(git rev-parse --git-dir)/config.worktree"',
        'd="$(git rev-parse --git-common-dir)/objects/info" && mkdir -p "$d" && echo /tmp > "$d/alternates"',
        "rm .git",
        "mv .git aside",
        "echo 'gitdir: /tmp/evil' > .git",
        "git update-ref refs/heads/main $(git commit-tree -m evil 'HEAD^{tree}')",
        "git branch mine",
        "git symbolic-ref HEAD refs/heads/main",
        "git worktree add ../second",
    ],
)
async def test_it_never_gets_at_what_our_git_obeys(
    runtime: Runtime, worktree: str, project: Project, way_out: str, commits: bool
) -> None:
    project.git("config", "extensions.worktreeConfig", "true")
    os.rmdir(os.path.join(project.git_dir, "objects", "info"))  # where it is not there, nobody can make it
    before = project.footprint()
    pointer = os.path.join(worktree, ".git")
    with open(pointer, encoding="utf-8") as file:
        own = file.read()
    said, code = await run(structs.replace(runtime, commits=commits), worktree, way_out)
    assert code != 0, said
    assert project.footprint() == before
    assert project.git("symbolic-ref", "HEAD", at=worktree).strip() == f"refs/heads/{BRANCH}"
    with open(pointer, encoding="utf-8") as file:
        assert file.read() == own


async def test_only_a_worktree_of_a_run_can_be_committed_to(runtime: Runtime, project: Project) -> None:
    with pytest.raises(BadInput, match="commits = false"):
        await run(structs.replace(runtime, commits=True), project.path, "true")


async def test_modules_that_an_agent_wrote_are_not_imported_outside(
    runtime: Runtime, worktree: str, tmp_path: os.PathLike[str]
) -> None:
    """What makes the confinement of the next agent starts in the same worktree."""
    told = os.path.join(tmp_path, "imported")
    script = "mkdir holdfast; for m in holdfast/__init__ json msgspec; do printf '%s' \"$1\" > $m.py; done"
    module = f"open({told!r}, 'a').write(__file__)"
    launch = Launch(("/bin/sh", "-c", script, "sh", module), worktree, {}, "test/first", runtime=runtime)
    async with spawn(launch) as tree:
        await tree.wait_for_exit()
    assert os.path.exists(os.path.join(worktree, "json.py"))
    assert await run(runtime, worktree, "echo fine") == ("fine\n", 0)
    assert not os.path.exists(told)
