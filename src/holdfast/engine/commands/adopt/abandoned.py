"""What a killed adopt left: a run that never became visible, and the branches that it made for it.

A stage is the only record of these branches, so it is kept until they are deleted.
"""

import os
from collections.abc import Sequence

import msgspec

from holdfast.engine.home import Home
from holdfast.git.repository import find_repository
from holdfast.leaf.errors import HoldfastError
from holdfast.store.base import Stage


class StageNote(msgspec.Struct, frozen=True):
    """What is done in a repository for a run that is not visible yet: branches, and other refs by their whole names."""

    run: str
    repo: str
    refs: dict[str, str]


class AbandonedAdoption(msgspec.Struct, frozen=True):
    """A stage of a dead process. `problem` says why it cannot be deleted now."""

    folder: str
    problem: str | None


async def abandoned_adoptions(home: Home, repositories: Sequence[str] = ()) -> list[AbandonedAdoption]:
    """Return what killed adopts left. Changes nothing."""
    found = []
    for stage in home.abandoned_stages():
        try:
            found.append(AbandonedAdoption(stage.folder, _problem(stage, repositories)))
        finally:
            stage.close()
    return found


async def delete_abandoned(home: Home, repositories: Sequence[str] = ()) -> list[str]:
    """Delete what killed adopts left, branches included. Returns why the rest is kept."""
    kept = []
    for stage in home.abandoned_stages():
        try:
            problem = await undo(home, stage, repositories)
            if problem is None:
                stage.delete()
            else:
                kept.append(problem)
        finally:
            stage.close()
    return kept


async def undo(home: Home, stage: Stage, repositories: Sequence[str] = ()) -> str | None:
    """Delete the branches of a run that did not become visible. A branch that moved since is left alone.

    Returns why they cannot be deleted. A repository that was moved may be one of `repositories`.
    """
    problem = _problem(stage, repositories)
    note = None if problem is not None else _note_of(stage)
    if note is None or home.index.has_run(note.run):
        return problem
    try:
        for place in (note.repo, *repositories):
            if not os.path.isdir(place):
                continue
            repository = await find_repository(place)
            for name, commit in note.refs.items():
                ref = name if name.startswith("refs/") else f"refs/heads/{name}"
                if await repository.commit_of(ref) == commit:
                    await repository.delete_ref(ref, commit)
    except (HoldfastError, OSError) as error:
        return f"its branches in {note.repo} cannot be deleted: {error}"
    return None


def _problem(stage: Stage, repositories: Sequence[str]) -> str | None:
    try:
        note = _note_of(stage)
    except (msgspec.MsgspecError, OSError) as error:
        return f"its note cannot be read ({error}); delete the folder and look for its branches with holdfast doctor"
    if note is None or os.path.isdir(note.repo) or (repositories and not os.path.lexists(note.repo)):
        return None
    branches = ", ".join(note.refs)
    return (
        f"it made {branches} in {note.repo}, which is not there. Make it available again, or pass where it is now "
        "(--repo); if it is gone for good, delete the folder"
    )


def _note_of(stage: Stage) -> StageNote | None:
    note = stage.read_note()
    return msgspec.json.decode(note, type=StageNote) if note is not None else None
