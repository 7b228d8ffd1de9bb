"""A user's repository with a remote, and runs at work on it: real git, as small as it can be."""

import asyncio
import atexit
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from holdfast.core.events import Event
from holdfast.core.events.plan import PlanCreated
from holdfast.core.events.session import SessionStart
from holdfast.core.work.names import CHAIN_REFS, worktree_names
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, Workspace, create_run, open_workspace
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.memory import in_memory

_NOBODY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class Footprint(NamedTuple):
    """All that somebody could notice of a repository, but for the anchors of logs, to which each session adds one."""

    refs: str
    worktrees: str
    status: str
    config: bytes
    staged: bytes
    folders: tuple[str, ...]

    def without_salvage(self) -> "Footprint":
        kept = [line for line in self.refs.splitlines() if "refs/holdfast/salvage/" not in line]
        return self._replace(refs="\n".join(kept))


class Project:
    """One commit on `main`, which is checked out, and on the remote `origin`, a bare repository beside it."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "project")
        self.remote = os.path.join(folder, "remote.git")

    @classmethod
    def make(cls, folder: str) -> "Project":
        """A copy of one that is made once in a process: it takes one git instead of ten, and those that they start."""
        project, template = cls(folder), _template()
        shutil.copytree(template.path, project.path, symlinks=True)
        shutil.copytree(template.remote, project.remote, symlinks=True)
        config = os.path.join(project.git_dir, "config")
        write(project.git_dir, {"config": os.fsdecode(_content(config)).replace(template.remote, project.remote)})
        project.git("update-index", "--refresh")  # it knows files by their inodes
        return project

    @classmethod
    def make_with_git(cls, folder: str) -> "Project":
        project = cls(folder)
        os.makedirs(project.path)
        project.git("init", "--quiet", "--bare", "--initial-branch=main", project.remote)
        project.git("init", "--quiet", "--initial-branch=main")
        project.git("config", "user.name", "Ada")
        project.git("config", "user.email", "ada@example.com")
        project.git("remote", "add", "origin", project.remote)
        project.commit({"a.txt": "1\n2\n3\n"}, "Begin")
        project.git("push", "--quiet", "origin", "main")
        return project

    @property
    def git_dir(self) -> str:
        return os.path.join(self.path, ".git")

    def git(self, *arguments: str, at: str | None = None, check: bool = True) -> str:
        place = at or self.path
        answer = subprocess.run(
            ["git", *arguments],
            cwd=place,
            env={**os.environ, **_NOBODY},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
        assert not check or answer.returncode == 0, answer
        return answer.stdout.strip()

    def commit(self, files: Mapping[str, str], message: str) -> str:
        write(self.path, files)
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={message}")
        return self.git("rev-parse", "HEAD")

    def tip(self, name: str) -> str | None:
        return self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False) or None

    def branches(self) -> list[str]:
        """Those of Holdfast."""
        return self.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/holdfast").split()

    def salvage(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", "refs/holdfast/salvage").split()

    def worktrees(self) -> list[str]:
        """The folders of those beside the user's own."""
        lines = self.git("worktree", "list", "--porcelain").splitlines()
        return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")][1:]

    def show(self, name: str) -> str:
        """The content of a file in a commit: `main:a.txt`."""
        return self.git("show", name)

    def footprint(self) -> Footprint:
        status = self.git("status", "--porcelain=v2", "--branch")
        refs = [line for line in self.git("for-each-ref").splitlines() if CHAIN_REFS not in line]
        return Footprint(
            "\n".join(refs),
            self.git("worktree", "list", "--porcelain"),
            status,
            _content(os.path.join(self.git_dir, "config")),
            _content(os.path.join(self.git_dir, "index")),
            tuple(sorted(name for name in os.listdir(self.path) if name != ".git")),
        )


@cache
def _template() -> Project:
    """Without the samples of hooks, which git does not run."""
    folder = in_memory()
    atexit.register(folder.cleanup)
    project = Project.make_with_git(os.path.realpath(folder.name))
    for repository in (project.git_dir, project.remote):
        hooks = os.path.join(repository, "hooks")
        for name in os.listdir(hooks):
            os.remove(os.path.join(hooks, name))
    return project


def write(folder: str, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


# Runs on it


def new_run(home: str, project: Project, goal: str = "Add OAuth login", base: str | None = None) -> str:
    return asyncio.run(create_run(Home(home), NewRun(goal, project.path, base=base), PlanCreated()))


def do_task(home: str, run_id: str, task: str = "T-1", files: Mapping[str, str] | None = None) -> None:
    """A task from its worktree to its merge."""
    asyncio.run(task_merged(home, run_id, task, files))


async def task_begun(home: str, run_id: str, task: str, files: Mapping[str, str] | None = None) -> str:
    """A task with one commit on its branch. Returns the folder of its worktree."""
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        return await _work(workspace, task, files)


async def task_merged(home: str, run_id: str, task: str, files: Mapping[str, str] | None = None) -> None:
    async with open_workspace(Home(home), run_id, "resume") as workspace:
        await _work(workspace, task, files)
        await workspace.merge([task])


async def _work(workspace: Workspace, task: str, files: Mapping[str, str] | None) -> str:
    worktree = await workspace.open_worktree(task)
    write(worktree.path, files if files is not None else {f"{task}.txt": f"{task}\n"})
    await workspace.commit(task, f"Do {task}")
    return worktree.path


def leave_interrupted(home: str, run_id: str, *events: Event) -> None:
    """A session that begins, does these, and never ends."""
    asyncio.run(_begin(home, run_id, events))


async def _begin(home: str, run_id: str, events: tuple[Event, ...]) -> None:
    async with open_run(FileStore(home), run_id) as run:
        await run.begin_session(SessionStart(command="resume"), *events)


def workspace_of(home: str, run_id: str, task: str | None = None) -> str:
    return os.path.join(run_folder(home, run_id), worktree_names(run_id, task).folder)
