"""A run's anchors in a repository: written to a ref of the run's own, and read from every commit that has one.

The ref is a line of commits without files, one for each session. Only refs hold commits for good: a task's commits are
on the run's branch, in salvage after `archive`, and on the user's branches once they are merged.
"""

from collections.abc import Collection

from holdfast.core.log.anchors import CHAIN, RUN, Anchor, RecordedAnchor, anchors_in
from holdfast.core.work.names import chain_ref
from holdfast.git.repository import Repository

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Holdfast",
    "GIT_AUTHOR_EMAIL": "chain@holdfast.localhost",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "chain@holdfast.localhost",
}
_READING_LIMIT_S = 600.0  # all commits of a repository are looked through


async def write_anchor(repository: Repository, run_id: str, anchor: Anchor) -> None:
    """Add an anchor to the run's ref. Two git commands, and four for the first."""
    ref = chain_ref(run_id)
    message = f"Log of {run_id}\n\n{RUN}: {run_id}\n{CHAIN}: {anchor}"
    added = await repository.git.try_to("commit-tree", "-p", ref, "-m", message, f"{ref}^{{tree}}", more=_IDENTITY)
    if added.code:  # there is no ref yet
        tree = await repository.empty_tree()
        added = await repository.git.do("commit-tree", "-m", message, tree, more=_IDENTITY)
    await repository.set_ref(ref, added.text)


async def read_anchors(repository: Repository, run_ids: Collection[str]) -> list[RecordedAnchor]:
    """Every anchor of these runs in a commit that a ref of the repository leads to, by position; each once."""
    runs = sorted(run_ids)
    answer = await repository.git.ask(
        "log",
        "--all",
        "--ignore-missing",
        "--no-show-signature",
        "--no-mailmap",
        "-z",
        "--format=%H%n%cI%n%B",
        "--fixed-strings",
        *(f"--grep={RUN}: {run_id}" for run_id in runs),
        limit=_READING_LIMIT_S,
    )
    found: dict[Anchor, RecordedAnchor] = {}
    for record in answer.fields():
        commit, time, message = record.split("\n", 2)
        for anchor in anchors_in(message, runs):
            subject = message.partition("\n")[0]
            found[anchor] = RecordedAnchor(*anchor, commit, time, subject, repository.common_dir)
    return sorted(found.values(), key=lambda anchor: anchor.position)
