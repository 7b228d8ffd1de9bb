"""The clone of a remote that a machine keeps for its cluster runs: bare, one for each URL.

The remote's branches are `refs/remotes/origin/…` in it, so that `refs/heads` belongs to runs. A clone is made beside
its place and renamed into it, so that no run finds half of one.
"""

import asyncio
import fcntl
import hashlib
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.git.process import Git
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.directories import remove_tree, sync_directory
from holdfast.leaf.files.disk import make_directories
from holdfast.leaf.files.sync import sync_file_systems
from holdfast.leaf.ids import slug_of

_CLONE_TIMEOUT_S = 3600.0
_POLL_INTERVAL_S = 0.1  # while another process clones
_FAILPOINT = failpoint_pair("mirror.clone")
_NAME = re.compile(r"[^/:]+?(?=(?:\.git)?/*$)")
_REFSPEC = "+refs/heads/*:refs/remotes/origin/*"


def check_remote_url(url: str) -> str:
    """Return the URL that a run records. Raises `BadInput` when it holds a password or is not a whole address."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - slow to import, and only new cluster runs need it

    parts = urlsplit(url) if "://" in url else None
    if parts is not None and parts.password:
        raise BadInput(
            "the remote's URL holds a password, and a run's log would record it; use SSH or a git credential helper "
            "(git remote set-url)"
        )
    if parts is None and ":" not in url.partition("/")[0] and not os.path.isabs(url):
        raise BadInput(f"the remote {url} is a relative path, which other machines cannot reach; use its full URL")
    return url


def mirror_folder(mirrors: str, url: str) -> str:
    """Return the path of the mirror of a URL, in the folder of all mirrors."""
    match = _NAME.search(url)
    digest = hashlib.sha256(url.encode(errors="surrogateescape")).hexdigest()[:12]
    return os.path.join(mirrors, f"{slug_of(match[0] if match is not None else 'repository')}-{digest}.git")


async def ensure_mirror(mirrors: str, url: str) -> str:
    """Return the path of the mirror of a URL; clone it if it is not there yet."""
    folder = mirror_folder(mirrors, url)
    if os.path.isdir(folder):
        return folder
    make_directories(mirrors)
    async with _locked(mirrors):  # of two runs, the second finds the first one's clone
        if not os.path.isdir(folder):
            await _clone(folder, url)
    return folder


@asynccontextmanager
async def _locked(mirrors: str) -> AsyncIterator[None]:
    fd = os.open(mirrors, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL_INTERVAL_S)
        yield
    finally:
        os.close(fd)


async def _clone(folder: str, url: str) -> None:
    unfinished = f"{folder}.unfinished"
    remove_tree(unfinished)
    _FAILPOINT.before()
    git = Git(os.path.dirname(folder), runs_hooks=False)
    await git.execute("init", "--quiet", "--bare", "--template=", unfinished)
    inside = Git(unfinished, env_markers={"GIT_DIR": unfinished}, runs_hooks=False)
    await inside.execute("remote", "add", "origin", url)
    await inside.execute("config", "remote.origin.fetch", _REFSPEC)
    await inside.execute("fetch", "--quiet", "--prune", "origin", timeout_s=_CLONE_TIMEOUT_S)
    await sync_file_systems(unfinished)
    os.rename(unfinished, folder)
    sync_directory(os.path.dirname(folder))
    _FAILPOINT.after()


async def fetch_branches(folder: str) -> None:
    """Fetch what people pushed to the remote since."""
    git = Git(folder, env_markers={"GIT_DIR": folder}, runs_hooks=False)
    await git.execute("fetch", "--quiet", "--prune", "origin", timeout_s=_CLONE_TIMEOUT_S)
