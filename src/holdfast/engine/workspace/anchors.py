"""Finds the anchors of a log: in the repository that it names, in that of its worktrees, and in the current folder's.

A rewritten log may name a repository that the run did not work on. So the log's own information is not enough.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from holdfast.core.events.session import RunCreated, RunMoved
from holdfast.core.log.anchors import RecordedAnchor
from holdfast.core.log.codec import DECODE_ERRORS, Line, parse
from holdfast.core.work.names import worktree_names
from holdfast.git.anchors import read_anchors
from holdfast.git.repository import Repository, find_repository
from holdfast.git.worktree_admin import commondir_of, read_pointer
from holdfast.leaf.errors import BadInput, HoldfastError
from holdfast.store.base import Log

_IDENTITY_EVENTS = tuple(f'"{kind.type}"'.encode() for kind in (RunCreated, RunMoved))


class FoundAnchors(NamedTuple):
    """`asked` are repositories; `absent` no longer exist; `unread` could not be read, each with the reason."""

    anchors: list[RecordedAnchor]
    repositories: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


class _RunIdentity(msgspec.Struct):
    """The fields of `run.created` and `run.moved` that identify the run and its repository."""

    run_id: str | None = None
    repo: str | None = None
    remote: str | None = None


async def find_anchors(log: Log, folder: str, run_id: str | None, copies: Sequence[str] = ()) -> FoundAnchors:
    """Return the anchors of the log in a run's folder: of `run_id`, and of the run that the log names.

    `copies` are repositories, or clones, that the user named.
    """
    run_ids, repositories = await _runs_and_repositories(log)
    run_ids |= {run_id} if run_id is not None else set()
    if not run_ids:
        return FoundAnchors([])
    named = [(await find_repository(path)).common_dir for path in copies]
    repositories += _worktree_repositories(folder, run_ids)
    searched, absent, unread = list[str](), list[str](), list[str]()
    anchors: dict[tuple[int, str], RecordedAnchor] = {}
    for path in dict.fromkeys([*map(os.path.realpath, repositories), *named, *await _current_repository()]):
        if not os.path.isdir(path):
            absent.append(path)
            continue
        try:
            found = await read_anchors(Repository(path), run_ids)
        except (HoldfastError, OSError) as error:
            unread.append(f"{path}: {error}")
            continue
        searched.append(path)
        anchors |= {anchor.anchor: anchor for anchor in found}
    return FoundAnchors(list(anchors.values()), tuple(searched), tuple(absent), tuple(unread))


async def _runs_and_repositories(log: Log) -> tuple[set[str], list[str]]:
    """Return the runs and repositories that a log names. A cluster run names the repository of its submitter."""
    run_ids, repositories = set[str](), list[str]()
    async for batch in log.read():
        if not any(kind in batch.data for kind in _IDENTITY_EVENTS):
            continue
        for raw in batch.data.split(b"\n"):
            line = parse(raw) if any(kind in raw for kind in _IDENTITY_EVENTS) else None
            if isinstance(line, Line) and line.type in (RunCreated.type, RunMoved.type):
                with suppress(*DECODE_ERRORS):
                    named = msgspec.json.decode(line.data, type=_RunIdentity)
                    run_ids |= {named.run_id} if named.run_id is not None else set()
                    is_here = named.remote is None or (named.repo is not None and os.path.isdir(named.repo))
                    repositories += [named.repo] if named.repo is not None and is_here else []
    return run_ids, repositories


def _worktree_repositories(folder: str, run_ids: Iterable[str]) -> list[str]:
    """Return the repository of the run's own worktree, if it exists."""
    found = []
    for run_id in run_ids:
        with suppress(OSError):
            own = read_pointer(os.path.join(folder, worktree_names(run_id).folder, ".git"), "gitdir: ")
            common_dir = commondir_of(own) if own is not None else None
            found += [common_dir] if common_dir is not None else []
    return found


async def _current_repository() -> list[str]:
    """Return the repository of the current folder, if there is one."""
    with suppress(BadInput, OSError):
        return [(await find_repository(os.getcwd())).common_dir]
    return []
