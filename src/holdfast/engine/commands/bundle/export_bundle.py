"""Write a run to one file: its log, inbox and documents, and a git bundle of all that it has in its repository."""

import asyncio
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from holdfast import __version__
from holdfast.core.state import RunState
from holdfast.core.work.names import run_refs, worktree_names
from holdfast.engine.commands.bundle.manifest import (
    FOLDERS,
    FORMAT,
    LOG_FILE,
    MANIFEST,
    REPOSITORY,
    SINGLE_FILES,
    BundledFile,
    Manifest,
    is_allowed,
)
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.engine.workspace.repository import repository_folder
from holdfast.engine.workspace.workspace import Workspace, open_workspace
from holdfast.git.repository import Repository
from holdfast.leaf.clock import now
from holdfast.leaf.errors import BadInput, Denied, HoldfastError
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import sync_directory
from holdfast.store.base import Head
from holdfast.store.fold import fold_log

COMMAND = "export"
_CHUNK_BYTES = 1024 * 1024
_FAILPOINT = failpoint_pair("bundle.write")


class WrittenBundle(NamedTuple):
    path: str
    bytes: int
    manifest: Manifest


class _Source(NamedTuple):
    """A file as it is now, under its name in the bundle."""

    name: str
    path: str


async def export_bundle(home: Home, run_id: str, path: str) -> WrittenBundle:
    """Write the bundle, completely or not at all. The files of open worktrees are saved in snapshots first."""
    state = (await view_run(home, run_id)).state
    if home.store_url is not None or (state.run is not None and state.run.remote is not None):
        raise Denied(f"run {run_id} is not of this machine alone: any machine of its cluster can continue it")
    repository = await _repository_of(home, state)
    if repository is not None and state.run is not None and not state.run.archived:
        async with open_workspace(home, run_id, COMMAND) as workspace:
            await _save_worktrees(workspace)
    async with home.store.own(run_id):
        folded = await fold_log(home.store.log(run_id), await home.store.snapshot(run_id))
        with _scratch_folder(os.path.join(os.path.dirname(path), f".holdfast-bundle-{run_id}")) as scratch:
            refs = await _bundle_refs(repository, run_id, os.path.join(scratch, REPOSITORY))
            await _copy_log(home, run_id, folded.head, os.path.join(scratch, LOG_FILE))
            sources = list(_sources(home.folder(run_id), scratch))
            files = tuple([await asyncio.to_thread(_describe, source) for source in sources])
            manifest = Manifest(
                format=FORMAT,
                run=run_id,
                made=now(),
                by=__version__,
                position=folded.head.position,
                chain=folded.head.chain,
                base=_base_of(folded.fold.state, run_id),
                refs=refs,
                files=files,
            )
            _FAILPOINT.before()
            await asyncio.to_thread(_write, os.path.join(scratch, "bundle"), path, manifest, sources)
            _FAILPOINT.after()
    return WrittenBundle(path, os.path.getsize(path), manifest)


@contextmanager
def _scratch_folder(path: str) -> Iterator[str]:
    """A folder beside the bundle, for the owner of the run. What a killed export left there is deleted first."""
    try:
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path, 0o700)
    except OSError as error:
        raise BadInput(f"cannot write beside the bundle: {path}: {error.strerror}") from None
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def _repository_of(home: Home, state: RunState) -> Repository | None:
    folder = repository_folder(home, state.run)
    return Repository(folder) if folder is not None and os.path.isdir(folder) else None


def _base_of(state: RunState, run_id: str) -> str | None:
    branch = state.branches.get(worktree_names(run_id).branch)
    return branch.base if branch is not None else None


async def _save_worktrees(workspace: Workspace) -> None:
    await workspace.effects.run.has_unread()  # collects reports of confined agents into the inbox
    for task in (None, *workspace.effects.run.state.tasks):
        if os.path.isdir(workspace.worktree(task).path):
            try:
                await workspace.snapshot_during_turn(task)
            except Denied as error:
                raise Denied(f"the files of {task or 'the run'} cannot be taken along: {error}") from error


async def _bundle_refs(repository: Repository | None, run_id: str, path: str) -> dict[str, str]:
    refs = await repository.refs(*run_refs(run_id)) if repository is not None else {}
    if repository is not None and refs:
        listed = "".join(f"{ref}\n" for ref in refs).encode()
        await repository.git.execute("bundle", "create", "--quiet", path, "--stdin", stdin=listed)
    return refs


async def _copy_log(home: Home, run_id: str, head: Head, path: str) -> None:
    with open(path, "wb") as file:
        async for batch in home.store.log(run_id).read():
            file.write(batch.data)
        if file.tell() != head.position:
            raise HoldfastError(f"the log of {run_id} changed while it was copied; nothing was exported")


def _sources(folder: str, scratch: str) -> Iterator[_Source]:
    yield _Source(LOG_FILE, os.path.join(scratch, LOG_FILE))
    if os.path.exists(os.path.join(scratch, REPOSITORY)):
        yield _Source(REPOSITORY, os.path.join(scratch, REPOSITORY))
    for name in SINGLE_FILES:
        if _is_regular(path := os.path.join(folder, name)):
            yield _Source(name, path)
    for top in FOLDERS:
        for parent, folders, names in os.walk(os.path.join(folder, top)):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(parent, name)
                inside = os.path.relpath(path, folder)
                if _is_regular(path) and is_allowed(inside):
                    yield _Source(inside, path)


def _is_regular(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _describe(source: _Source) -> BundledFile:
    digest, size = hashlib.sha256(), 0
    with open(source.path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return BundledFile(source.name, size, digest.hexdigest())


def _write(temporary: str, path: str, manifest: Manifest, sources: list[_Source]) -> None:
    """Write it beside its place, sync it, and move it there."""
    with open(temporary, "xb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=6) as archive:
            encoded = msgspec.json.encode(manifest)
            archive.addfile(_member(MANIFEST, len(encoded)), io.BytesIO(encoded))
            for source, described in zip(sources, manifest.files, strict=True):
                with open(source.path, "rb") as content:
                    archive.addfile(_member(source.name, described.size), content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(os.path.dirname(path))


def _member(name: str, size: int) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.mode = size, 0o600
    return found
