"""What was saved before something forceful, in whichever repository: list it, look at it, bring it back."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from holdfast.core.work.names import SALVAGE
from holdfast.engine.queries.diff import Comparison, compared
from holdfast.git.repository import Repository, find_repository
from holdfast.git.snapshot import flattened
from holdfast.leaf.errors import BadInput, HoldfastError, NothingToDo


class Salvaged(NamedTuple):
    """One thing that was saved. `name` is `<run>/<branch>/<effect>`."""

    name: str
    repo: str
    commit: str
    when: str
    what: str

    @property
    def ref(self) -> str:
        return f"{SALVAGE}{self.name}"

    @property
    def run(self) -> str:
        return self.name.partition("/")[0]


async def salvaged_in(repositories: Iterable[str], run: str | None = None) -> list[Salvaged]:
    """Everything that was saved there, the newest first; of one run only, when it is named (also by its beginning)."""
    found: list[Salvaged] = []
    for common_dir in repositories:
        found += [
            Salvaged(ref.name.removeprefix(SALVAGE), common_dir, ref.commit, ref.when, ref.subject)
            for ref in await Repository(common_dir).described(SALVAGE)
        ]
    found.sort(key=lambda salvaged: datetime.fromisoformat(salvaged.when), reverse=True)
    return [salvaged for salvaged in found if run is None or salvaged.run.startswith(run)]


async def find_salvaged(repositories: Iterable[str], name: str) -> Salvaged:
    """The one that a name, the beginning of one, or the beginning of its last part stands for."""
    everything = await salvaged_in(repositories)
    wanted = name.removeprefix(SALVAGE)
    for matches in (
        [one for one in everything if one.name == wanted],
        [one for one in everything if wanted and one.name.startswith(wanted)],
        [one for one in everything if wanted and one.name.rpartition("/")[2].startswith(wanted)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches and len({one.name for one in matches}) == 1:
            places = ", ".join(one.repo for one in matches)
            raise BadInput(f"{matches[0].name} is in several repositories ({places}); name one with --repo")
        if matches:
            listed = ", ".join(one.name for one in matches[:8])
            raise BadInput(f"{name!r} could be any of {listed}; type more of the one you mean")
    raise NothingToDo(f"nothing was saved by the name {name!r}; `holdfast salvage ls` lists what was")


async def salvaged_changes(salvaged: Salvaged) -> Comparison:
    """What it holds that the repository's HEAD does not."""
    repository = Repository(salvaged.repo)
    begun = await repository.commit_of("HEAD") is not None
    base = await repository.merge_base("HEAD", salvaged.commit) if begun else None
    return await compared(repository, base or await repository.empty_tree(), salvaged.commit)


async def restore_salvaged(salvaged: Salvaged, branch: str | None = None) -> str:
    """Make a branch of it, and touch nothing else. Returns the branch; harmless when it is there already."""
    repository = Repository(salvaged.repo)
    name = branch or f"salvaged/{salvaged.name}"
    commit = await flattened(repository, salvaged.commit)
    await repository.make_branch(name, commit)
    return name


async def repositories_of(runs: Iterable[str | None], named: Iterable[str], here: str | None = None) -> list[str]:
    """The repositories of runs, those that were named, and the one that a folder may be in.

    A run's that is not there any more is passed over; one that was named must be there.
    """
    found = {repo: None for repo in runs if repo is not None and os.path.isdir(repo)}
    for folder in named:
        found[(await find_repository(folder)).common_dir] = None
    if here is not None:
        with suppress(HoldfastError):
            found[(await find_repository(here)).common_dir] = None
    return list(found)
