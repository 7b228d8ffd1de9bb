"""Make a run of a bundle: the run continues here. It is written out of sight and appears complete, or not at all.

The file may be from anybody: every name in it is checked, nothing is written outside the run's own folder and refs, and
the log must be whole before the run appears.
"""

import asyncio
import hashlib
import os
import shlex
import tarfile
from typing import IO, NamedTuple

import msgspec

from holdfast.core.end_reason import EndReason
from holdfast.core.events.session import RunMoved, SessionEnd, SessionStart
from holdfast.core.log.verification import Verifier
from holdfast.core.text.cut import cut
from holdfast.core.work.names import worktree_names
from holdfast.engine.commands.adopt.abandoned import StageNote, delete_abandoned, undo
from holdfast.engine.commands.bundle.manifest import (
    INBOX_FILE,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    REPOSITORY,
    BundledFile,
    Manifest,
)
from holdfast.engine.commands.bundle.trust import needing_trust
from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.git.repository import ABSENT, Repository, find_repository
from holdfast.leaf.errors import BadInput, Denied, RunExists
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import make_directories
from holdfast.store.base import Stage
from holdfast.store.run import open_run

COMMAND = "import"
_CHUNK_BYTES = 1024 * 1024
_MAX_SHOWN, _MAX_SHOWN_CHARS = 5, 200  # of what needs trust
_TAR_ERRORS = (tarfile.TarError, EOFError, OSError)
_FAILPOINT_FILES, _FAILPOINT_REFS = failpoint_pair("import.files"), failpoint_pair("import.refs")


class ImportedRun(NamedTuple):
    run_id: str
    repository: str | None
    events: int


async def import_bundle(home: Home, path: str, folder: str | None = None, *, trusted: bool = False) -> ImportedRun:
    """Import a bundle into the repository of a folder, by default the current one.

    Raises `Denied` for one that decides which commands run here, unless it is `trusted`.
    """
    if home.store_url is not None:
        raise Denied(f"a bundle is imported into a home of files, not into {home.place}; unset HOLDFAST_STORE")
    await delete_abandoned(home)
    stage = await asyncio.to_thread(home.new_stage)
    try:
        manifest = await asyncio.to_thread(_unpack, path, stage, home)
        events = await _verify_log(stage, manifest)
        if not trusted:
            await _check_trust(home, stage, manifest.run, path)
        bundle = os.path.join(stage.folder, REPOSITORY)
        repository = None
        if manifest.refs:
            repository = await _open_repository(folder)
            await _make_refs(repository, bundle, stage, manifest)
        await _record(stage, manifest, repository)
        with home.publishing():
            _refuse_existing(home, manifest.run)
            await asyncio.to_thread(stage.publish, manifest.run)
    except Exception:
        if await undo(home, stage) is None:
            stage.delete()
        raise
    finally:
        stage.close()
    stage.delete()
    return ImportedRun(manifest.run, repository.common_dir if repository is not None else None, events)


# The files


def _unpack(path: str, stage: Stage, home: Home) -> Manifest:
    try:
        with tarfile.open(path, "r|gz") as archive:
            manifest = _read_manifest(path, archive)
            _refuse_existing(home, manifest.run)
            _FAILPOINT_FILES.before()
            _unpack_files(path, archive, stage, manifest)
            _FAILPOINT_FILES.after()
            return manifest
    except FileNotFoundError:
        raise BadInput(f"there is no {path}; make one with: holdfast export RUN --bundle FILE") from None
    except _TAR_ERRORS as error:
        raise BadInput(f"{path} cannot be read as a bundle: {error}; nothing was imported") from error


def _read_manifest(path: str, archive: tarfile.TarFile) -> Manifest:
    member = archive.next()
    content = archive.extractfile(member) if member is not None and member.isreg() else None
    if member is None or content is None or member.name != MANIFEST or member.size > MAX_MANIFEST_BYTES:
        raise BadInput(f"{path} is not a bundle of a run; make one with: holdfast export RUN --bundle FILE")
    try:
        manifest = msgspec.json.decode(content.read(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{path} is not a bundle that this Holdfast reads: {error}") from None
    manifest.check()
    return manifest


def _unpack_files(path: str, archive: tarfile.TarFile, stage: Stage, manifest: Manifest) -> None:
    wanted = {file.name: file for file in manifest.files}
    folder = os.path.join(Home(stage.folder).folder(manifest.run))
    make_directories(folder)
    while (member := archive.next()) is not None:
        file = wanted.pop(member.name, None)
        content = archive.extractfile(member) if member.isreg() else None
        if file is None or content is None or member.size != file.size:
            raise BadInput(f"{path} has {member.name!r}, which its list of files does not; nothing was imported")
        top = stage.folder if file.name == REPOSITORY else folder
        _copy(content, os.path.join(top, *file.name.split("/")), file)
    if wanted:
        raise BadInput(f"{path} lacks {min(wanted)}: it is incomplete; nothing was imported")
    os.close(os.open(os.path.join(folder, INBOX_FILE), os.O_WRONLY | os.O_CREAT, 0o600))
    sync_directory(folder)


def _copy(content: IO[bytes], target: str, file: BundledFile) -> None:
    make_directories(os.path.dirname(target))
    digest = hashlib.sha256()
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as copy:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    if digest.hexdigest() != file.sha256:
        raise BadInput(f"{file.name} in the bundle is damaged: its digest is another one; nothing was imported")
    sync_directory(os.path.dirname(target))


def _refuse_existing(home: Home, run_id: str) -> None:
    if home.index.has_run(run_id):
        raise RunExists(f"run {run_id} is here already; continue it with: holdfast resume {run_id}")


# The log


async def _verify_log(stage: Stage, manifest: Manifest) -> int:
    """Read it strictly. Returns how many events it has."""
    log = Home(stage.folder).store.log(manifest.run)
    verifier = Verifier(must_be_chained=True)
    size = 0
    async for batch in log.read():
        verifier.feed(batch.data)
        size = batch.end
    result = verifier.result(await log.torn_tail())
    if result.damage:
        first = result.damage[0]
        raise Denied(f"the log in the bundle is not whole: line {first.line}: {first.reason}; nothing was imported")
    if (size, result.chain) != (manifest.position, manifest.chain):
        raise Denied("the log in the bundle is not the one that was exported; nothing was imported")
    return result.events


async def _check_trust(home: Home, stage: Stage, run_id: str, path: str) -> None:
    found: dict[str, None] = {}  # in their order, each once
    base, staged = load_config(home=home).settings, Home(stage.folder)
    with open(os.path.join(staged.folder(run_id), INBOX_FILE), "rb") as inbox:
        found.update(dict.fromkeys(needing_trust(inbox, base)))
    async for batch in staged.store.log(run_id).read():
        found.update(dict.fromkeys(needing_trust(batch.data.splitlines(), base)))
    if found:
        more = f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
        listed = ", ".join(cut(each, _MAX_SHOWN_CHARS) for each in [*found][:_MAX_SHOWN])
        raise Denied(
            f"the bundle decides what runs here once you resume it: {listed}{more}; nothing was imported. "
            f"If you trust who made it: holdfast import {shlex.quote(path)} --trust"
        )


# The repository


async def _open_repository(folder: str | None) -> Repository:
    try:
        return await find_repository(folder or os.getcwd())
    except BadInput as error:
        raise BadInput(f"{error}; pass a clone of the run's repository with --repo DIR") from error


async def _make_refs(repository: Repository, bundle: str, stage: Stage, manifest: Manifest) -> None:
    """Take the commits over, and make the run's refs. What is made is noted first, so that it can be undone."""
    if not os.path.isfile(bundle):
        raise BadInput("the bundle names refs and has no commits; nothing was imported")
    unbundled = await repository.git.try_execute("bundle", "unbundle", bundle)
    if unbundled.code:
        problem = " ".join(unbundled.stderr.replace(bundle, REPOSITORY).split())
        raise BadInput(f"git cannot read the commits in the bundle: {problem}; nothing was imported")
    await _check_same_repository(repository, manifest)
    existing = await repository.refs(*manifest.refs)
    for ref, oid in manifest.refs.items():
        if existing.get(ref, oid) != oid:
            raise Denied(f"{repository.common_dir} has another {ref}; delete or rename it, then import again")
        if await repository.commit_of(oid) is None:
            raise BadInput(f"the bundle lacks the commit of {ref}; nothing was imported")
    missing = {ref: oid for ref, oid in manifest.refs.items() if ref not in existing}
    note = StageNote(manifest.run, repository.common_dir, missing)
    await asyncio.to_thread(stage.write_note, msgspec.json.encode(note))
    _FAILPOINT_REFS.before()
    for ref, oid in missing.items():
        await repository.set_ref(ref, oid, ABSENT)
    _FAILPOINT_REFS.after()


async def _check_same_repository(repository: Repository, manifest: Manifest) -> None:
    head = await repository.commit_of("HEAD")
    tip = manifest.refs.get(f"refs/heads/{worktree_names(manifest.run).branch}") or manifest.base
    if head is None or tip is None or await repository.commit_of(tip) is None:
        return  # nothing to compare with
    if await repository.merge_base(head, tip) is None:
        raise Denied(
            f"{repository.common_dir} has no commit in common with the run; pass a clone of its repository: --repo DIR"
        )


async def _record(stage: Stage, manifest: Manifest, repository: Repository | None) -> None:
    async with open_run(Home(stage.folder).store, manifest.run) as run:
        moved = [RunMoved(repo=repository.common_dir)] if repository is not None else []
        await run.begin_session(SessionStart(command=COMMAND, pid=os.getpid()), *moved)
        await run.append(SessionEnd(reason=EndReason.ALL_DONE))
