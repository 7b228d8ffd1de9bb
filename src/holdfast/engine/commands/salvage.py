"""Lists, shows and restores the work that was saved before a destructive operation."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from holdfast.core.work.names import SALVAGE_REFS
from holdfast.engine.queries.diff import Comparison, compare_commits
from holdfast.git.repository import Repository, find_repository
from holdfast.git.snapshot import flatten_snapshot
from holdfast.leaf.errors import BadInput, HoldfastError, NothingToDo


class SalvageEntry(NamedTuple):
    """One saved piece of work. `name` is `<run>/<branch>/<effect>`."""

    name: str
    repo: str
    commit: str
    when: str
    what: str

    @property
    def ref(self) -> str:
        return f"{SALVAGE_REFS}{self.name}"

    @property
    def run(self) -> str:
        return self.name.partition("/")[0]


async def list_salvaged(repositories: Iterable[str], run_name: str | None = None) -> list[SalvageEntry]:
    """Return everything saved in these repositories, newest first; only that of one run if given, by name or prefix."""
    found: list[SalvageEntry] = []
    for common_dir in repositories:
        found += [
            SalvageEntry(ref.name.removeprefix(SALVAGE_REFS), common_dir, ref.commit, ref.committed_at, ref.subject)
            for ref in await Repository(common_dir).describe_refs(SALVAGE_REFS)
        ]
    found.sort(key=lambda salvaged: datetime.fromisoformat(salvaged.when), reverse=True)
    return [salvaged for salvaged in found if run_name is None or salvaged.run.startswith(run_name)]


async def find_salvaged(repositories: Iterable[str], prefix: str) -> SalvageEntry:
    """Return the entry whose name, or whose name's last part, begins with the prefix."""
    entries = await list_salvaged(repositories)
    name_prefix = prefix.removeprefix(SALVAGE_REFS)
    for matches in (
        [entry for entry in entries if entry.name == name_prefix],
        [entry for entry in entries if name_prefix and entry.name.startswith(name_prefix)],
        [entry for entry in entries if name_prefix and entry.name.rpartition("/")[2].startswith(name_prefix)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches and len({entry.name for entry in matches}) == 1:
            places = ", ".join(entry.repo for entry in matches)
            raise BadInput(f"{matches[0].name} is in several repositories ({places}); name one with --repo")
        if matches:
            listed = ", ".join(entry.name for entry in matches[:8])
            raise BadInput(f"{prefix!r} could be any of {listed}; type more of its name")
    raise NothingToDo(f"nothing was saved by the name {prefix!r}; `holdfast salvage ls` lists what was")


async def salvaged_changes(entry: SalvageEntry) -> Comparison:
    """Return the changes of the entry relative to the repository's HEAD."""
    repository = Repository(entry.repo)
    has_commits = await repository.commit_of("HEAD") is not None
    base = await repository.merge_base("HEAD", entry.commit) if has_commits else None
    return await compare_commits(repository, base or await repository.empty_tree(), entry.commit)


async def restore_salvaged(entry: SalvageEntry, branch: str | None = None) -> str:
    """Create a branch from the entry and change nothing else. Returns the branch; idempotent."""
    repository = Repository(entry.repo)
    name = branch or f"salvaged/{entry.name}"
    commit = await flatten_snapshot(repository, entry.commit)
    await repository.make_branch(name, commit)
    return name


async def repositories_of(
    runs: Iterable[str | None], named: Iterable[str], current_folder: str | None = None
) -> list[str]:
    """Return the runs' repositories, the given ones, and the one that contains `folder`.

    Skips a run's repository that no longer exists; a given one must exist.
    """
    found = {repo: None for repo in runs if repo is not None and os.path.isdir(repo)}
    for folder in named:
        found[(await find_repository(folder)).common_dir] = None
    if current_folder is not None:
        with suppress(HoldfastError):
            found[(await find_repository(current_folder)).common_dir] = None
    return list(found)
