"""Commits of a run: one a task, with trailers that say whose they are, and the placeholder of a failed one.

A commit can be found again by its effect's id, whatever happened to the process that made it.
"""

from typing import NamedTuple

from holdfast.git.process import Git, GitFailed
from holdfast.git.worktree import Worktree, status_of
from holdfast.leaf.errors import HoldfastError

RUN, TASK, EFFECT = "Holdfast-Run", "Holdfast-Task", "Holdfast-Effect"
FAILED = "FAILED"

_FALLBACK_IDENTITY = ("-c", "user.name=Holdfast", "-c", "user.email=holdfast@localhost")


class HookRefused(HoldfastError):
    """The user's hook said no. A finding for whoever did the work; the work itself is where it was."""

    def __init__(self, said: str) -> None:
        super().__init__(f"a commit hook refused: {' '.join(said.split()) or 'it said nothing'}")
        self.said = said


class Signature(NamedTuple):
    """What the trailers of a commit say."""

    run: str
    effect: str
    task: str | None = None

    def trailers(self) -> list[str]:
        named = {RUN: self.run, TASK: self.task, EFFECT: self.effect}
        return [f"--trailer={name}={value}" for name, value in named.items() if value is not None]


async def commit_all(worktree: Worktree, message: str, signature: Signature, *, checked: bool = True) -> str | None:
    """Commit everything that is not ignored; None when there is nothing to commit. Returns the commit.

    `checked` runs the user's hooks, as their own commit would. The placeholder of a failed task does not: what a
    hook would refuse is just what must be kept.
    """
    await worktree.must_be_ours()
    done = await find_commit(worktree, signature.effect)
    if done is not None:
        return done
    await worktree.git.do("-c", "advice.addEmbeddedRepo=false", "add", "--all")
    if not any(change.status[0] not in ".?" for change in (await status_of(worktree)).changes):
        return None
    options = ["--quiet", f"--message={message}", *signature.trailers(), *([] if checked else ["--no-verify"])]
    try:
        await worktree.git.do(*await identity(worktree.git), "commit", *options)
    except GitFailed as error:
        if checked and await find_commit(worktree, signature.effect) is None:
            raise HookRefused(error.said) from None
        raise
    return (await worktree.git.ask("rev-parse", "HEAD")).text


async def find_commit(worktree: Worktree, effect: str, *, most: int = 1000) -> str | None:
    """The commit on the worktree's branch that carries this effect's id."""
    pattern = f"^{EFFECT}: {effect}$"
    answer = await worktree.repository.git.ask(
        "log", f"--max-count={most}", "--format=%H", f"--grep={pattern}", f"refs/heads/{worktree.branch}", "--"
    )
    return answer.lines[0] if answer.lines else None


async def keep_failed(worktree: Worktree, reason: str, signature: Signature) -> str | None:
    """The partial work of a failed task, as a placeholder commit."""
    subject = f"{FAILED} ({reason}): task {signature.task}"
    return await commit_all(worktree, subject, signature, checked=False)


async def unwind_failed(worktree: Worktree, effect: str) -> bool:
    """Take a placeholder back, its content staying in the worktree, so that the next attempt builds on it.

    Only when it is the last commit of the branch; False when it is not, or was taken back already.
    """
    await worktree.must_be_ours()
    placeholder = await find_commit(worktree, effect)
    head = (await worktree.git.ask("rev-parse", "HEAD")).text
    if placeholder is None or placeholder != head:
        return False
    await worktree.git.do("reset", "--soft", f"{head}^")
    return True


async def identity(git: Git) -> tuple[str, ...]:
    """Nothing, when the user told git who they are; else a name, so that the work is not lost for want of one."""
    known = await git.run("var", "GIT_AUTHOR_IDENT")
    return () if known.code == 0 else _FALLBACK_IDENTITY
