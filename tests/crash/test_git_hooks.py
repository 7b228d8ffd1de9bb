"""Git held in the middle by a hook, a filter or the other side, and killed there, alone or with its orchestrator."""

import pytest

from tests.support.effect_crash import Play, Prepared, kill
from tests.support.effect_scenes import KINDS, some

COMMITTING = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
POINTS: dict[str, tuple[str, ...]] = {
    "worktree.make": ("smudge", "post-checkout"),
    "worktree.remove": ("clean",),
    "branch.delete": (),
    "branch.restore": (),
    "branch.take_over": (),
    "worktree.link": (),
    "tree.capture": ("clean",),
    "unclean conflicts": ("smudge",),
    "tree commit": COMMITTING,
    "unwind beneath": (),
    "unlinked.removed": ("clean",),
    "refs.drop": (),
    "commit": ("clean", *COMMITTING),
    "merge commit": COMMITTING,
    "deleted.made": ("smudge", "post-checkout"),
    "deleted.removed": (),
    "commit.failed": ("clean", "prepare-commit-msg", "post-commit"),
    "commit.unwind": (),
    "merge": ("smudge", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-merge"),
    "merge.conflicts": ("smudge",),
    "seeds.commit": (),
    "snapshot.take": ("clean",),
    "snapshot.restore": ("clean", "smudge"),
    "worktree.rewind": ("clean", "smudge"),
    "refs.keep": (),  # moves refs only: see the test below
    "merge into a checkout": ("smudge",),
    "merge.into": (),
    "push": ("pre-push", "pre-receive", "update", "post-receive"),
    "pull_request": ("gh-before", "gh-after"),
    "cluster.take_over": ("pre-receive", "update", "post-receive"),
    "cluster.drop": ("pre-receive", "update", "post-receive"),
}
MOST_REFS = 30
HOOKS_FIRST = ("worktree.make", "worktree.rewind", "merge", "snapshot.restore", "push", "pull_request")
REFS_FIRST = ("worktree.make", "branch.delete", "refs.drop", "merge.into")


async def killed_at(play: Play, point: str, who: str) -> bool:
    """False when nobody came to the point."""
    play.set_back()
    with play.stage.held(point) as held, play.orchestrator() as orchestrator:
        if not held.wait(orchestrator):
            return False
        kill(who, orchestrator, play.run_id)
        orchestrator.hear()
        orchestrator.wait()
        await play.finish()
    await play.must_be_as_if_nothing_had_been()
    return True


SELDOM = [pytest.param(who, marks=pytest.mark.torture) for who in ("orchestrator", "git", "both", "group")]


@pytest.mark.parametrize("who", ["in turn", *SELDOM])
@pytest.mark.parametrize("kind", some([kind for kind in KINDS if POINTS[kind]], HOOKS_FIRST))
async def test_killed_in_a_hook_or_a_filter_it_is_done_once(prepared: Prepared, kind: str, who: str) -> None:
    play = await prepared(kind)
    for number, point in enumerate(POINTS[kind]):
        dies = ("git", "orchestrator")[number % 2] if who == "in turn" else who
        assert await killed_at(play, point, dies), f"nobody came to {point}"


@pytest.mark.parametrize("who", ["both", pytest.param("git", marks=pytest.mark.torture)])
@pytest.mark.parametrize("state", ["prepared", pytest.param("committed", marks=pytest.mark.torture)])
@pytest.mark.parametrize(
    "kind",
    some(
        [kind for kind in KINDS if kind not in ("push", "pull_request", "cluster.take_over", "cluster.drop")],
        REFS_FIRST,
    ),
)
async def test_killed_with_a_ref_locked_or_just_moved_it_is_done_once(
    prepared: Prepared, kind: str, state: str, who: str
) -> None:
    play = await prepared(kind)
    for number in range(1, MOST_REFS):
        if not await killed_at(play, f"{state}-{number}", who):
            assert number > 1, f"no ref was ever {state}"
            break
