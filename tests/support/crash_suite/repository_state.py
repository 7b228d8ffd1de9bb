"""What a run left in its repository: refs, commits and files, looked at once, with one git command for each."""

import io
import tarfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from holdfast.core.work.names import SALVAGE_REFS, SNAPSHOT_REFS, run_of_branch
from tests.support.crash_suite.trial_place import Place
from tests.support.repositories import git_bytes

_HEADS = "refs/heads/"
_FORM = "--format=%H%x1f%P%x1f%s%x1f%(trailers:key=Holdfast-Effect,valueonly,separator=%x20)"
_ARCHIVE = ("-c", "tar.umask=0002", "archive", "--format=tar")
_PLAIN = 0o664  # as git writes a file that is nothing but a file


class Commit(NamedTuple):
    parents: list[str]
    subject: str
    effects: list[str]


class Branches:
    """Those of one run, and those of the user; in a repository that it shares, those of other runs are passed over."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._run_id = place.run_id

    @cached_property
    def refs(self) -> dict[str, str]:
        """What each stands for; of other runs, there are none where nobody else is."""
        lines = self._place.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        named = dict(line.split(" ") for line in lines)
        of_others = [name for name in named if "/holdfast/" in name and self._run_id not in name]
        assert self._place.is_shared or not of_others, of_others
        return {name: oid for name, oid in named.items() if name not in of_others}

    @cached_property
    def saved(self) -> dict[str, str]:
        """Snapshots, and salvage."""
        return {name: oid for name, oid in self.refs.items() if name.startswith((SALVAGE_REFS, SNAPSHOT_REFS))}

    @cached_property
    def own(self) -> dict[str, str]:
        """The run's, by their last name: `main`, and those of tasks that failed."""
        heads = {name.removeprefix(_HEADS): oid for name, oid in self.refs.items() if name.startswith(_HEADS)}
        return {name.rpartition("/")[2]: oid for name, oid in heads.items() if run_of_branch(name) == self._run_id}

    @cached_property
    def users(self) -> dict[str, str]:
        return {name: oid for name, oid in self.refs.items() if "/holdfast/" not in name}

    @cached_property
    def _commits(self) -> dict[str, Commit]:
        tips = {*self.own.values(), *self.users.values()}
        found = {}
        for line in self._place.git("log", _FORM, *sorted(tips)).splitlines():
            oid, parents, subject, effects = line.split("\x1f")
            found[oid] = Commit(parents.split(), subject, effects.split())
        return found

    def on(self, tip: str) -> dict[str, Commit]:
        """All that a commit comes of, itself included."""
        found: dict[str, Commit] = {}
        waiting = [tip]
        while waiting:
            oid = waiting.pop()
            if oid not in found:
                found[oid] = self._commits[oid]
                waiting += found[oid].parents
        return found

    def merges_into(self, tip: str) -> list[Commit]:
        """Those that were made on this very branch."""
        return [commit for commit in self._along(tip) if commit.parents[1:]]

    def changed_by_merges_into(self, tip: str) -> Iterator[tuple[Commit, list[str]]]:
        """What each brought to this very branch, by the names of files."""
        for merge in self._place.git(
            "log", "--first-parent", "--merges", "-m", "--name-only", "--format=%x1e%H", tip
        ).split("\x1e")[1:]:
            oid, *names = merge.split()
            yield self._commits[oid], names

    def _along(self, tip: str) -> Iterator[Commit]:
        commit: Commit | None = self._commits[tip]
        while commit is not None:
            yield commit
            commit = self._commits[commit.parents[0]] if commit.parents else None

    def subjects(self, tips: Mapping[str, str]) -> dict[str, list[str]]:
        """Of all that is on each branch."""
        return {name: sorted(commit.subject for commit in self.on(tip).values()) for name, tip in tips.items()}

    @cached_property
    def files(self) -> dict[str, dict[str, str]]:
        """On each branch of the run."""
        return {name: self._files_of(tip) for name, tip in self.own.items()}

    def _files_of(self, commit: str) -> dict[str, str]:
        packed = io.BytesIO(git_bytes(self._place.repo, *_ARCHIVE, commit))
        with tarfile.open(fileobj=packed) as archive:
            return {member.name: _content(archive, member) for member in archive if not member.isdir()}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    """What stands in a file; with its mode, where that is not the usual one."""
    file = archive.extractfile(member) if member.isfile() else None
    text = file.read().decode() if file is not None else f"→ {member.linkname}"
    return text if member.isfile() and member.mode == _PLAIN else f"{member.mode:o} {text}"
