"""What the world looks like after a run: everything that a crash could have changed, without what chance decides."""

import os
import re
from collections import Counter
from typing import Any

from holdfast.core.events.effect import EffectHappened, EffectIntended
from holdfast.core.work.cluster_refs import CLUSTER_REFS, OWNER
from holdfast.core.work.names import CHAIN_REFS, SALVAGE_REFS
from holdfast.engine.home import Home
from holdfast.engine.queries.verify import verify_run
from holdfast.git.locks import INDEX_COPY
from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.store.files.layout import run_folder
from holdfast.store.files.store import FileStore
from tests.support.effect_stage import Stage
from tests.support.events import events_in
from tests.support.logs import folded, whole
from tests.support.repositories import half_deleted

_EPOCH = re.compile(rf"(?<={CLUSTER_REFS}RUN/)\d+")
_CHANCE = re.compile(r"\b[0-9a-f]{16}\b")


def refs(stage: Stage, run_id: str, repo: str | None = None) -> list[tuple[str, str]]:
    """Each ref, with the subjects and trees of its whole history; not what git last heard of a remote.

    Nor the anchors of the log, of which each session adds one, nor the marks of an owner on the remote of a cluster.
    """
    found = set()
    for name in stage.git("for-each-ref", "--format=%(refname)", at=repo).split():
        is_mark = name.startswith(CLUSTER_REFS) and name.endswith((f"/{OWNER}", "/chain"))
        if not is_mark and not name.startswith((SALVAGE_REFS, CHAIN_REFS, "refs/remotes/")):
            history = stage.git("log", "--topo-order", "--format=%s %T", name, "--", at=repo)
            found.add((_plain(name, run_id), _plain(history, run_id)))
    return sorted(found)


def salvaged(stage: Stage) -> set[str]:
    return set(stage.git("for-each-ref", "--format=%(tree)", SALVAGE_REFS).split())


def worktrees(stage: Stage, run_id: str) -> dict[str, Any]:
    blocks = stage.git("worktree", "list", "--porcelain").strip().split("\n\n")
    found = {}
    for block in blocks[1:]:
        facts = dict(line.partition(" ")[::2] for line in block.split("\n"))
        assert not {"locked", "prunable", "detached"} & facts.keys(), f"half-made: {block}"
        path = facts["worktree"]
        own = stage.git("rev-parse", "--absolute-git-dir", at=path).strip()
        found[os.path.relpath(path, run_folder(stage.home, run_id))] = (
            _plain(facts["branch"], run_id),
            stage.git("status", "--porcelain", "--untracked-files=all", at=path),
            files(path),
            notes_of_a_merge(own),
        )
    return found


def notes_of_a_merge(own: str) -> list[str]:
    """While one is going on, that it is: the message that git proposes is written last, and ours is another."""
    found = sorted(name for name in os.listdir(own) if name.startswith("MERGE_"))
    return ["MERGE_HEAD"] if "MERGE_HEAD" in found else found


def users_own(stage: Stage) -> dict[str, Any]:
    """The user's checkout and branches, which are not ours to touch."""
    return {
        "files": files(stage.repo),
        "status": stage.git("status", "--porcelain", "--branch", "--untracked-files=all"),
        "HEAD": stage.git("symbolic-ref", "HEAD"),
        "main": stage.git("rev-parse", "main"),
        "stash": stage.git("stash", "list"),
        "config": _read(os.path.join(stage.git_dir, "config")),
    }


def files(folder: str) -> dict[str, str]:
    found = {}
    for where, below, names in os.walk(folder):
        below[:] = [name for name in below if name != ".git"]
        for name in names:
            path = os.path.join(where, name)
            if name != ".git":
                found[os.path.relpath(path, folder)] = _read(path)
    return found


def fingerprint(stage: Stage, run_id: str) -> dict[str, Any]:
    requests = os.path.join(stage.strings, "requests")
    return {
        "refs": refs(stage, run_id),
        "remote": refs(stage, run_id, stage.remote),
        "worktrees": worktrees(stage, run_id),
        "requests": _plain(_read(requests), run_id) if os.path.exists(requests) else "",
        "user": users_own(stage),
    }


async def happened(stage: Stage, run_id: str) -> Counter[str]:
    """How many effects of each kind the log says happened."""
    kinds: dict[str, str] = {}
    found: Counter[str] = Counter()
    for event in events_in(await whole(FileStore(stage.home), run_id)):
        if isinstance(event, EffectIntended):
            kinds[event.effect] = event.kind
        elif isinstance(event, EffectHappened):
            found[kinds[event.effect]] += 1
    return found


async def assert_sound(stage: Stage, run_id: str) -> None:
    """Nothing half done anywhere, nobody left at work, nothing open."""
    assert marked_processes(RUN_MARK, run_id) == [], "a stray process"
    assert strays(stage, run_id) == []
    said = stage.git("fsck", "--strict", "--no-dangling", "--no-progress")
    assert said == "", said
    stage.git("fsck", "--strict", "--no-dangling", "--no-progress", at=stage.remote)
    assert (await verify_run(Home(stage.home), run_id)).is_intact
    assert folded(await whole(FileStore(stage.home), run_id)).effects == {}


def strays(stage: Stage, run_id: str) -> list[str]:
    """Lock files, copies of an index, half-deleted folders, and entries of worktrees that are none."""
    found = []
    for top in (stage.git_dir, stage.remote):
        for where, below, names in os.walk(top):
            found += [os.path.join(where, name) for name in names if name.endswith((".lock", ".new"))]
            found += [os.path.join(where, name) for name in below if name.startswith(INDEX_COPY)]
    admin = os.path.join(stage.git_dir, "worktrees")
    entries = os.listdir(admin) if os.path.isdir(admin) else []
    if len(entries) != stage.git("worktree", "list").count("\n") - 1:
        found.append(f"entries {entries}")
    return found + half_deleted(run_folder(stage.home, run_id))


def _plain(text: str, run_id: str) -> str:
    return _CHANCE.sub("EFFECT", _EPOCH.sub("EPOCH", text.replace(run_id, "RUN")))


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
