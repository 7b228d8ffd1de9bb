"""Where the work of an adopted session is, and the branches that its run gets."""

import os
import tempfile
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.events import Event
from holdfast.core.events.branch import BranchCreated
from holdfast.core.work.foreign_tools import TOOL_NAMES
from holdfast.core.work.names import worktree_names
from holdfast.core.work.tasks import TaskList
from holdfast.engine.commands.adopt.base import ForeignSession, TaskWork
from holdfast.engine.commands.adopt.plan_repair import repair
from holdfast.engine.commands.adopt.tilth import fallback_tasks
from holdfast.git.adoption import (
    Checkout,
    below_attempts,
    commit_failed_attempt,
    commit_uncommitted,
    fetch_bundle,
    files_of_folder,
    find_branch,
    fork_point,
    read_checkout,
)
from holdfast.git.repository import Repository, worktree_top
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.workflows.tasklists import read_tasks


class Source(NamedTuple):
    """The commits that a session's work is in. `base` is where it left the user's own line, named `base_name`."""

    tip: str
    base: str
    base_name: str
    checkout: Checkout | None
    findings: list[str]


class Branches(NamedTuple):
    """The refs of a run, each with its commit; the events that state them; the commit that the run starts from."""

    refs: dict[str, str]
    events: list[Event]
    start: str
    tasks: tuple[str, ...]  # that have a branch of their own


async def locate(repository: Repository, folder: str, session: ForeignSession) -> Source:
    """Find the work of a session. Writes only objects."""
    findings = [f"{name} is in no event of its log; it is left alone" for name in await _unknown(repository, session)]
    head, head_name = await repository.resolve_base(folder)
    checkout = await _checkout(repository, session, findings)
    if session.follows_checkout and checkout is not None:
        if session.branch is not None and checkout.branch != session.branch:
            findings.append(f"it worked on {session.branch}; the checkout is on {checkout.branch or 'no branch'} now")
        return Source(checkout.head, checkout.head, checkout.branch or head_name, checkout, findings)
    if session.only_on_its_branch and checkout is not None and checkout.branch != session.branch:
        checkout = None
    tip = await _tip(repository, session)
    if tip is None:
        start = (checkout.branch if checkout is not None else None) or head_name
        if session.branch is not None:
            findings.append(f"the repository has no branch {session.branch}: the run starts from {start}")
        if checkout is None:
            return Source(head, head, head_name, None, findings)
        return Source(checkout.head, await fork_point(repository, checkout.head, head), start, checkout, findings)
    if checkout is not None and checkout.head != tip:
        findings.append(f"{session.cwd} is not on {session.branch}: its uncommitted files are not taken along")
        checkout = None
    base = tip if session.follows_checkout else await fork_point(repository, tip, head)
    return Source(tip, base, head_name if base != tip else session.branch or head_name, checkout, findings)


async def _unknown(repository: Repository, session: ForeignSession) -> list[str]:
    """The branches that have names as those of the session's tasks, but belong to none of them."""
    if session.task_branches is None:
        return []
    prefix, known = session.task_branches
    names = [ref.removeprefix("refs/heads/") for ref in await repository.refs(f"refs/heads/{prefix}")]
    return [name for name in names if name not in known]


async def _checkout(repository: Repository, session: ForeignSession, findings: list[str]) -> Checkout | None:
    if session.cwd is None or not os.path.isdir(session.cwd):
        return None
    try:
        return await read_checkout(repository, session.cwd, session.keep_out)
    except BadInput as error:
        findings.append(str(error))
        return None


async def _tip(repository: Repository, session: ForeignSession) -> str | None:
    if session.branch is None:
        return None
    found = await find_branch(repository, session.branch)
    if found is None and session.branch_in is not None:
        found = await fetch_bundle(repository, session.branch_in, session.branch)
    return found


async def read_plan(repository: Repository, folder: str, session: ForeignSession, source: Source) -> TaskList:
    """Return the session's tasks; from its branch, or from a checkout, when the task list is only there."""
    return repair(await _read_tasks(repository, folder, session, source), source.findings)


async def _read_tasks(repository: Repository, folder: str, session: ForeignSession, source: Source) -> TaskList:
    if session.tasks.tasks or session.plan_folder is None:
        return session.tasks
    files = await files_of_folder(repository, source.tip, session.plan_folder)
    if not files:
        with suppress(HoldfastError):
            return read_tasks(os.path.join(await worktree_top(folder), session.plan_folder))
    with tempfile.TemporaryDirectory(prefix="holdfast-adopt-") as scratch:
        for name, content in files.items():
            with open(os.path.join(scratch, name), "wb") as file:
                file.write(content)
        try:
            return read_tasks(scratch)
        except HoldfastError as error:
            reason = str(error).replace(scratch, session.plan_folder)
            source.findings.append(f"its task list cannot be read ({reason}); only titles are known")
            return fallback_tasks(session)


async def make_branches(repository: Repository, run_id: str, session: ForeignSession, source: Source) -> Branches:
    """Make the commits of the run's branches. The refs are only named, not created."""
    main = worktree_names(run_id).branch
    start, tree = source.tip, source.checkout.tree if source.checkout is not None else None
    refs: dict[str, str] = {}
    events: list[Event] = []
    tasks: list[str] = []
    for work in session.work:
        found = await _task_commit(repository, run_id, session, source, work)
        if found is None:
            continue
        below, commit = found
        start = below if work.branch is None else start
        tree = None if work.branch is None else tree
        place = worktree_names(run_id, work.task)
        refs[place.branch] = commit
        events.append(BranchCreated(name=place.branch, base=below, task=work.task))
        tasks.append(work.task)
    if tree is not None:
        title = f"Uncommitted work of {TOOL_NAMES[session.tool]}, session {session.id}"
        start = await commit_uncommitted(repository, title, tree, start)
    refs[main] = start
    return Branches(refs, [BranchCreated(name=main, base=source.base), *events], start, tuple(tasks))


async def _task_commit(
    repository: Repository, run_id: str, session: ForeignSession, source: Source, work: TaskWork
) -> tuple[str, str] | None:
    """Return where the task's branch starts, and its newest commit; None when it has no work of its own."""
    if work.branch is not None:
        return await _own_branch(repository, run_id, session, source, work)
    below = source.tip
    if work.subject is not None:
        below = await below_attempts(repository, source.tip, source.base, work.subject)
    tree = source.checkout.tree if source.checkout is not None else None
    tree = tree or await repository.tree_of(source.tip)
    if tree == await repository.tree_of(below):
        return None
    if work.is_failed:
        return below, await commit_failed_attempt(repository, run_id, work.task, tree, below)
    title = f"Work in progress on {work.task}, from {TOOL_NAMES[session.tool]}"
    return below, await commit_uncommitted(repository, title, tree, below)


async def _own_branch(
    repository: Repository, run_id: str, session: ForeignSession, source: Source, work: TaskWork
) -> tuple[str, str] | None:
    assert work.branch is not None, "it was asked for"
    tip = await find_branch(repository, work.branch)
    if tip is None:
        source.findings.append(f"the branch {work.branch} of {work.task} is not there; the task starts again")
        return None
    below = await repository.merge_base(tip, source.tip) or source.tip
    tree = await _worktree_tree(repository, session, source, work.branch) or await repository.tree_of(tip)
    if tree == await repository.tree_of(below):
        return None
    if work.is_failed:
        return below, await commit_failed_attempt(repository, run_id, work.task, tree, below)
    if tree == await repository.tree_of(tip):
        return below, tip
    return below, await commit_uncommitted(repository, f"Work in progress on {work.task}", tree, tip)


async def _worktree_tree(repository: Repository, session: ForeignSession, source: Source, branch: str) -> str | None:
    """Return the files of the worktree that has the branch checked out, if they differ from it."""
    for fact in await repository.checkouts_of(branch):
        try:
            is_there = os.path.isdir(fact.path)
            found = await read_checkout(repository, fact.path, session.keep_out) if is_there else None
        except BadInput as error:
            source.findings.append(str(error))
            continue
        if found is not None and found.tree is not None:
            return found.tree
    return None
