"""The commits of a session that another tool began, as the branches of a run.

Writes objects and nothing else: no ref, index or file of the other tool changes.
"""

import os
import shutil
import tempfile
from typing import NamedTuple

from holdfast.git.commit import CommitTrailers, commit_tree
from holdfast.git.placeholder import FAILED_PREFIX
from holdfast.git.process import Git, GitFailed
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput
from holdfast.leaf.ids import new_effect_id

_MAX_ATTEMPTS = 100  # commits of one failed task, on top of each other


class Checkout(NamedTuple):
    """A checkout as it is now: its commit and branch, and its files as a tree when they differ from the commit."""

    head: str
    branch: str | None
    tree: str | None


async def find_branch(repository: Repository, name: str) -> str | None:
    """Return the commit of a branch, local or of any remote."""
    commit = await repository.commit_of(f"refs/heads/{name}")
    if commit is not None:
        return commit
    for remote in await repository.remotes():
        commit = await repository.commit_of(f"refs/remotes/{remote}/{name}")
        if commit is not None:
            return commit
    return None


async def fetch_bundle(repository: Repository, bundle: str, name: str) -> str | None:
    """Copy the commits of a branch out of a bundle, without making a ref; None when the bundle lacks them."""
    listed = await repository.git.run("bundle", "list-heads", bundle, f"refs/heads/{name}")
    commit = listed.text.partition(" ")[0]
    if listed.code or not commit:
        return None
    answer = await repository.git.run("bundle", "unbundle", bundle)
    return commit if answer.code == 0 and await repository.commit_of(commit) is not None else None


async def fork_point(repository: Repository, tip: str, head: str) -> str:
    """Return where the branch left the user's own line of work; the tip itself when it did not."""
    return await repository.merge_base(tip, head) or tip


async def below_attempts(repository: Repository, tip: str, base: str, subject: str) -> str:
    """Return the newest commit below those of a failed task: the ones at the tip whose subject starts so."""
    commit = tip
    for _ in range(_MAX_ATTEMPTS):
        if commit == base:
            break
        lines = (await repository.git.query("log", "-1", "--no-show-signature", "--format=%s%n%P", commit, "--")).lines
        parents = lines[1].split() if lines[1:] else []
        if not lines or not lines[0].startswith(subject) or len(parents) != 1:
            break
        commit = parents[0]
    return commit


async def read_checkout(repository: Repository, folder: str, keep_out: tuple[str, ...] = ()) -> Checkout | None:
    """Read a checkout of the repository through an index of our own; None when it is not one.

    `keep_out` are paths that are not part of the work. Raises `BadInput` when git cannot read the files.
    """
    git = Git(folder, env_markers=repository.env_markers, stay_in_folder=False)
    found = await git.run("rev-parse", "--path-format=absolute", "--git-common-dir", "--absolute-git-dir", "HEAD")
    if found.code:
        return None
    common, git_dir, head = found.lines
    if os.path.realpath(common) != os.path.realpath(repository.common_dir):
        return None
    branch = (await git.run("symbolic-ref", "--quiet", "--short", "HEAD")).text or None
    outside = [f":(top,exclude){path}" for path in keep_out]
    with tempfile.TemporaryDirectory(prefix="holdfast-adopt-") as scratch:
        index = os.path.join(scratch, "index")
        if os.path.exists(os.path.join(git_dir, "index")):
            shutil.copy2(os.path.join(git_dir, "index"), index)  # with its time: it tells git which files are unchanged
        environment = {"GIT_INDEX_FILE": index}
        options = ("-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false")
        try:
            await git.execute(*options, "add", "--all", "--sparse", "--", ":/", *outside, extra_env=environment)
            tree = (await git.execute("write-tree", extra_env=environment)).text
        except GitFailed as error:
            raise BadInput(f"the uncommitted files of {folder} cannot be taken along: {error}") from None
    return Checkout(head, branch, tree if tree != await repository.tree_of(head) else None)


async def commit_failed_attempt(repository: Repository, run_id: str, task: str, tree: str, base: str) -> str:
    """Commit the work of a failed task as our own placeholder, which a retry undoes."""
    trailers = CommitTrailers(run_id, new_effect_id(), task)
    text = f"{FAILED_PREFIX} (adopted): task {task}\n\n{trailers.render()}"
    return await commit_tree(repository, tree, [base], text)


async def commit_uncommitted(repository: Repository, title: str, tree: str, base: str) -> str:
    return await commit_tree(repository, tree, [base], title)


async def files_of_folder(repository: Repository, commit: str, folder: str) -> dict[str, bytes]:
    """Return the files directly in a folder of a commit, by name."""
    listed = await repository.git.run("ls-tree", "-z", "--name-only", commit, f"{folder.rstrip('/')}/")
    if listed.code:
        return {}
    found: dict[str, bytes] = {}
    for path in listed.fields():
        answer = await repository.git.run("cat-file", "blob", f"{commit}:{path}")
        if answer.code == 0:
            found[os.path.basename(path)] = answer.stdout
    return found
