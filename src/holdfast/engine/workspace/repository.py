"""Opens the repository of a run: where the user has it, or for a cluster run this machine's mirror of its remote."""

import os

import msgspec

from holdfast.core.state import RunInfo
from holdfast.core.work.names import SALVAGE_REFS
from holdfast.engine.home import Home
from holdfast.git.cluster.mirror import ensure_mirror, fetch_branches, mirror_folder
from holdfast.git.cluster.remote_refs import accept_incoming, fetch_incoming, list_remote_refs
from holdfast.git.effects import read_epochs
from holdfast.git.repository import Repository
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace
from holdfast.leaf.process.env_markers import RUN_MARK

FD_MARKER_FILE = "tether"  # in the run's folder: the file that its processes hold open

_SEEN_FILE = "cluster-seen.json"  # in the run's folder: the last push of another machine that was fetched to be read

_FAILPOINT_SEEN = failpoint_pair("cluster.seen")


async def open_repository(home: Home, info: RunInfo | None, run_id: str) -> Repository:
    """Return the run's repository to read from it. For a cluster run, what its owner pushed last is fetched."""
    path = await _repository_path(home, info, run_id)
    repository = Repository(path)
    if info is not None and info.remote is not None:
        await _fetch_to_read(repository, info.remote, run_id, home.folder(run_id))
    return repository


async def open_owned_repository(home: Home, info: RunInfo | None, run_id: str) -> Repository:
    """Return the run's repository for its owner, so that processes there can be found again."""
    path = await _repository_path(home, info, run_id)
    if info is not None and info.remote is not None:
        make_directories(home.folder(run_id))
        await fetch_branches(path)
    return marked_repository(path, run_id, home.folder(run_id))


def marked_repository(common_dir: str, run_id: str, folder: str) -> Repository:
    return Repository(common_dir, env_markers={RUN_MARK: run_id}, fd_marker=os.path.join(folder, FD_MARKER_FILE))


def repository_folder(home: Home, info: RunInfo | None) -> str | None:
    """Return where the run's repository is on this machine; None if it has none. The folder may be missing."""
    if info is None or info.repo is None:
        return None
    return info.repo if info.remote is None else mirror_folder(home.file("mirrors"), info.remote)


def is_elsewhere(home: Home, info: RunInfo | None, run_id: str) -> bool:
    """True when another machine has the newest files of a cluster run: its worktrees here are outdated."""
    if info is None or info.remote is None:
        return False
    folder = home.folder(run_id)
    seen = _read_seen(folder)
    return seen is not None and seen.epoch not in read_epochs(folder)


async def _repository_path(home: Home, info: RunInfo | None, run_id: str) -> str:
    if info is not None and info.remote is not None:
        return await ensure_mirror(home.file("mirrors"), info.remote)
    return require_repository(info, run_id)


def require_repository(info: RunInfo | None, run_id: str) -> str:
    """Return where the user has the run's repository. Raises `BadInput` when it was moved."""
    if info is None or info.repo is None:
        raise NothingToDo(f"run {run_id} works on no repository")
    if info.remote is None and not os.path.isdir(info.repo):
        raise BadInput(
            f"the repository of run {run_id} is not at {info.repo} any more; "
            "if it was moved, `holdfast doctor --repo NEW-PLACE --fix` finds it again"
        )
    return info.repo


async def _fetch_to_read(repository: Repository, url: str, run_id: str, folder: str) -> None:
    """Fetch the run's refs unless this machine wrote them, or has fetched them already."""
    remote = await list_remote_refs(repository, url, run_id)
    if remote.epoch is None or remote.epoch in read_epochs(folder):
        return
    seen = _Seen(epoch=remote.epoch, owner=remote.owner)
    if _read_seen(folder) == seen:
        return
    await fetch_incoming(repository, url, run_id, remote)
    await accept_incoming(repository, run_id, f"{SALVAGE_REFS}{run_id}/moved/{remote.owner}")
    make_directories(folder)
    _FAILPOINT_SEEN.before()
    replace(os.path.join(folder, _SEEN_FILE), msgspec.json.encode(seen))
    _FAILPOINT_SEEN.after()


class _Seen(msgspec.Struct, frozen=True):
    epoch: int
    owner: str | None


def _read_seen(folder: str) -> _Seen | None:
    try:
        with open(os.path.join(folder, _SEEN_FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=_Seen)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
