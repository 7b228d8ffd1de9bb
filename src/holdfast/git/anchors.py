"""Writes a run's anchors to a ref of the run, and reads them from every commit that carries one.

The ref is a chain of commits without files, one for each session. Only refs keep commits forever: a task's commits are
on the run's branch, in salvage after `archive`, and on the user's branches once they are merged.
"""

from collections.abc import Collection

from holdfast.core.log.anchors import CHAIN_TRAILER, RUN_TRAILER, Anchor, RecordedAnchor, anchors_in
from holdfast.core.work.names import chain_ref
from holdfast.git.ref_files import has_no_refs
from holdfast.git.repository import Repository

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Holdfast",
    "GIT_AUTHOR_EMAIL": "chain@holdfast.localhost",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "chain@holdfast.localhost",
}
_READ_TIMEOUT_S = 600.0  # reads every commit of the repository


async def write_anchor(repository: Repository, run_id: str, anchor: Anchor) -> None:
    """Add an anchor to the run's ref. Runs two git commands, and three for the first anchor."""
    ref = chain_ref(run_id)
    message = f"Log of {run_id}\n\n{RUN_TRAILER}: {run_id}\n{CHAIN_TRAILER}: {anchor}"
    added = None
    if not has_no_refs(repository.common_dir, ref):
        command = ("commit-tree", "-p", ref, "-m", message, f"{ref}^{{tree}}")
        added = await repository.git.try_execute(*command, extra_env=_IDENTITY)
    if added is None or added.code:  # there is no ref yet
        tree = await repository.empty_tree()
        added = await repository.git.execute("commit-tree", "-m", message, tree, extra_env=_IDENTITY)
    await repository.set_ref(ref, added.text)


async def read_anchors(repository: Repository, run_ids: Collection[str]) -> list[RecordedAnchor]:
    """Return every anchor of these runs that is reachable from a ref, sorted by position, without duplicates."""
    runs = sorted(run_ids)
    answer = await repository.git.query(
        "log",
        "--all",
        "--ignore-missing",
        "--no-show-signature",
        "--no-mailmap",
        "-z",
        "--format=%H%n%cI%n%B",
        "--fixed-strings",
        *(f"--grep={RUN_TRAILER}: {run_id}" for run_id in runs),
        timeout_s=_READ_TIMEOUT_S,
    )
    found: dict[Anchor, RecordedAnchor] = {}
    for record in answer.fields():
        commit, time, message = record.split("\n", 2)
        for anchor in anchors_in(message, runs):
            subject = message.partition("\n")[0]
            found[anchor] = RecordedAnchor(*anchor, commit, time, subject, repository.common_dir)
    return sorted(found.values(), key=lambda anchor: anchor.position)
