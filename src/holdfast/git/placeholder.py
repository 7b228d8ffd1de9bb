"""The `FAILED (…)` commit that keeps the partial work of a failed task, and how it is taken back.

It must never be merged: the next attempt goes on with its content, uncommitted. What a person committed on top of it
is put under the attempt as it is.
"""

from typing import NamedTuple

from holdfast.core.log.anchors import RUN
from holdfast.git.commit import ANY, EFFECT, TASK, Ground, Signature, commit_all, find_commit, one_line
from holdfast.git.merge import Conflicts, merged_tree
from holdfast.git.repository import Repository
from holdfast.git.snapshot import PLUMBING
from holdfast.git.worktrees.worktree import Worktree
from holdfast.leaf.errors import DecisionNeeded
from holdfast.leaf.failpoints import Point

FAILED = "FAILED"

_KEPT_LINES = (b"author ", b"committer ", b"encoding ")
_CRASH_KEPT = Point("commit.unwind.kept")


class Unwound(NamedTuple):
    """The placeholder that was taken back, and the newest of the commits that were on top of it, as it is now."""

    placeholder: str | None = None
    theirs: str | None = None


class OnTopOfPlaceholder(DecisionNeeded):
    """Somebody's commits stand on a placeholder, and cannot stand without it."""

    def __init__(self, worktree: Worktree, placeholder: str, above: list[str]) -> None:
        path, newest = worktree.path, above[-1]
        super().__init__(
            f"{worktree.branch} has commits on top of the placeholder of a failed attempt ({placeholder[:12]}) that "
            f"do not apply without it. Make one commit of both: git -C {path} reset --soft {placeholder}^ && "
            f"git -C {path} commit --reuse-message={newest[:12]}; then resume"
        )


async def keep_failed(worktree: Worktree, ground: Ground, reason: str, signature: Signature) -> str | None:
    """The partial work of a failed task, as a placeholder commit."""
    subject = f"{FAILED} ({one_line(reason)}): task {one_line(str(signature.task))}"
    return await commit_all(worktree, ground, subject, signature, hooks=False)


async def placeholder_in(repository: Repository, base: str, at: str, task: str) -> str | None:
    """The newest commit since `base`, on the way to `at`, that is a placeholder of this task."""
    trailers = ",".join(f"%(trailers:key={key},valueonly,separator=%x2C)%x00" for key in (RUN, EFFECT, TASK))
    answer = await repository.git.ask(
        "log", "--no-show-signature", "--topo-order", f"--format=%H%x00%s%x00{trailers}", at, f"^{base}", "--"
    )
    for line in answer.lines:
        oid, subject, run, effect, named, _ = line.replace("\0,", "\0").split("\0")
        if subject.startswith(f"{FAILED} (") and run and effect and named == one_line(task):
            return oid
    return None


async def placeholder_of(worktree: Worktree, base: str, task: str) -> str | None:
    """The newest one that is on the worktree's branch, whatever is on top of it."""
    return await placeholder_in(worktree.repository, base, f"refs/heads/{worktree.branch}", task)


async def unwind_failed(worktree: Worktree, ground: Ground, task: str) -> Unwound:
    """Take the placeholder back, its content staying in the worktree, so that the next attempt builds on it.

    Commits on top of it are made anew beneath, with the same message and author; `OnTopOfPlaceholder` when they
    cannot be. Nothing, when there is none, because it was taken back already.
    """
    unwound = Unwound()
    while (placeholder := await placeholder_of(worktree, ground.base, task)) is not None:
        await worktree.must_be_on_branch()
        head = (await worktree.git.ask("rev-parse", "HEAD")).text
        above = (
            await worktree.repository.git.ask("rev-list", "--reverse", "--topo-order", f"{placeholder}..{head}")
        ).lines
        onto = await _made_anew(worktree, placeholder, above)
        await worktree.repository.keep(ground.taken_back, head)
        _CRASH_KEPT()
        await worktree.git.do("reset", "--quiet", "--soft", onto)
        unwound = Unwound(placeholder, onto if above else unwound.theirs)
    return unwound if unwound.placeholder is not None else Unwound(theirs=await _of_a_person(worktree, ground))


async def _of_a_person(worktree: Worktree, ground: Ground) -> str | None:
    """What the branch of a failed task ends with, when none of ours does: its agent's commits went into ours."""
    tip = await worktree.repository.commit_of(f"refs/heads/{worktree.branch}")
    if tip in (None, ground.base) or tip == await find_commit(worktree, ground.base, ANY):
        return None
    return tip


async def was_unwound(worktree: Worktree, ground: Ground, task: str) -> Unwound:
    """What a call that was killed had done, by what it kept. The branch has no placeholder any more."""
    repository = worktree.repository
    kept = await repository.commit_of(ground.taken_back)
    if kept is None:
        return Unwound(theirs=await _of_a_person(worktree, ground))
    placeholder = await placeholder_in(repository, ground.base, kept, task)
    tip = await repository.commit_of(f"refs/heads/{worktree.branch}")
    return Unwound(placeholder, tip if placeholder != kept else None)


async def _made_anew(worktree: Worktree, placeholder: str, above: list[str]) -> str:
    """The same commits, on what the placeholder was made on. Returns the last of them."""
    repository = worktree.repository
    onto = (await repository.git.ask("rev-parse", f"{placeholder}^")).text
    if (
        above
        and (await repository.git.ask("rev-list", "--merges", "--max-count=1", f"{placeholder}..{above[-1]}")).text
    ):
        raise OnTopOfPlaceholder(worktree, placeholder, above)
    before = placeholder
    for commit in above:
        try:
            tree = await _tree_without(repository, before, onto, commit)
        except Conflicts:
            raise OnTopOfPlaceholder(worktree, placeholder, above) from None
        onto = await _commit_like(repository, commit, tree, onto)
        before = commit
    return onto


async def _tree_without(repository: Repository, before: str, onto: str, commit: str) -> str:
    """What `commit` changed since `before`, applied to `onto`: a merge whose common past is `before`."""
    git = repository.git

    async def as_commit(of: str, *parents: str) -> str:
        given = [f"-p{parent}" for parent in parents]
        return (await git.do("commit-tree", *given, "-m", "For a merge", f"{of}^{{tree}}", more=PLUMBING)).text

    past = await as_commit(before)
    return await merged_tree(repository, onto, await as_commit(onto, past), commit, await as_commit(commit, past))


async def _commit_like(repository: Repository, commit: str, tree: str, parent: str) -> str:
    """The same words, people and times. Not the signature: that is of another tree."""
    header, _, message = (await repository.git.ask("cat-file", "commit", commit)).out.partition(b"\n\n")
    kept = [line for line in header.split(b"\n") if line.startswith(_KEPT_LINES)]
    lines = [f"tree {tree}".encode(), f"parent {parent}".encode(), *kept]
    written = await repository.git.do(
        "hash-object", "-t", "commit", "-w", "--stdin", given=b"\n".join(lines) + b"\n\n" + message
    )
    return written.text
