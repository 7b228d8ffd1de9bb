"""Commands that give a run's work away, or take it away, killed at their points and called again.

The end is that of the command that nobody disturbed: nothing twice, nothing lost. `make test` tries the points of
what only they do; `make torture` every pass of every point.
"""

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from holdfast.core.events.effect import EffectHappened, EffectIntended
from tests.support.crash_suite.judge import Done
from tests.support.crash_suite.scenarios import SOLO
from tests.support.crash_suite.suite import numbered
from tests.support.crash_suite.trial import RECORD, must_be_civil
from tests.support.crash_suite.trial_place import Place, make_template
from tests.support.crash_suite.warm_programs import KILLED, Ended, Nursery
from tests.support.memory import in_memory
from tests.support.user_actions import put, worktree

COMMANDS = {
    "merge": ("--into", "release"),
    "push": (),
    "pr": (),
    "archive": (),
    "reset": ("--yes",),
}
OWN = {  # what no run comes by, or none that is short
    "merge": ("effect.merge.into",),
    "push": ("effect.push",),
    "pr": ("effect.pull_request",),
    "archive": ("effect.refs.drop",),
    "reset": ("effect.refs.drop", "effect.branch.delete"),
}
_NOTHING_TO_DO = 4
_HALF = re.compile(r"\.torn-|^snapshot\.json\.tmp$")  # of a line, set aside; of what the log gives again
_CHANCE = re.compile(r"[0-9a-f]{16}")


class Undisturbed(NamedTuple):
    world: dict[str, Any]
    passes: list[str]


class Scene:
    """A run that is done, and whatever a command made of it; it can be put back as it was."""

    def __init__(self, folder: str, warm: Nursery) -> None:
        self.place = Place(os.path.join(folder, "place"), SOLO._replace(publishes=True), warm)
        self._kept = os.path.join(folder, "kept")
        self._known: dict[str, Undisturbed] = {}
        make_template(os.path.join(folder, "template"))
        self.place.make(os.path.join(folder, "template"))
        assert self.place.begin().code == 0
        self.run_id = self.place.run_id
        self._have_others_at_work()
        shutil.copytree(self.place.folder, self._kept, symlinks=True)

    def _have_others_at_work(self) -> None:
        """A branch that went on meanwhile, and files of the run that are in no commit."""
        made = self.place.git("commit-tree", "-p", "main", "-m", "Theirs", "main^{tree}").strip()
        self.place.git("branch", "release", made)
        put(worktree(self.place, None), "draft.txt")

    def put_back(self) -> None:
        shutil.rmtree(self.place.folder)
        shutil.copytree(self._kept, self.place.folder, symlinks=True)

    def call(self, command: str, failpoint: str | None = None, passes: str = "passes") -> Ended:
        ended = self.place.call(command, self.run_id, *COMMANDS[command], failpoint=failpoint, passes=passes)
        must_be_civil(ended)
        return ended

    async def undisturbed(self, command: str) -> Undisturbed:
        if command not in self._known:
            self.put_back()
            assert self.call(command, RECORD, "recorded").code == 0
            self._known[command] = Undisturbed(await self.world(), numbered(self.place.passes("recorded")))
        return self._known[command]

    async def survives(self, command: str, failpoint: str) -> None:
        expected = (await self.undisturbed(command)).world
        self.put_back()
        assert self.call(command, failpoint).code == KILLED, failpoint
        again = self.call(command)
        assert again.code in (0, _NOTHING_TO_DO), (failpoint, again)
        found = await self.world()
        different = {what: (found[what], expected[what]) for what in expected if found[what] != expected[what]}
        assert not different, f"{failpoint} {again} {different}"

    async def world(self) -> dict[str, Any]:
        """All that somebody could notice, but for what chance decides."""
        place, gone = self.place, not os.path.exists(os.path.join(self.place.home, "runs", self.run_id))
        return {
            "refs": sorted(_CHANCE.sub("…", line) for line in _refs(place, "%(refname) %(tree)")),
            "at the remote": _refs(place, "%(refname) %(objectname)", "--git-dir", place.outside.remote),
            "requests": place.outside.gh.requests,
            "release": place.git("log", "--format=%s", "release").splitlines(),
            "worktrees": place.git("worktree", "list"),
            "user's": place.git("status", "--porcelain", "--branch", "--ignored"),
            "files": [] if gone else sorted(name for name in os.listdir(place.of_run()) if not _HALF.search(name)),
            "happened": [] if gone else await self._happened(),
        }

    async def _happened(self) -> list[str]:
        """Every effect has an outcome, and nobody is left. Who finds a pull request calls that one, too."""
        done = await Done.look(self.place)
        done.must_be_alone()
        assert done.state.effects == {}
        kinds = {event.effect: event.kind for event in done.of(EffectIntended)}
        return sorted({kinds[event.effect] for event in done.of(EffectHappened)})


def _refs(place: Place, shown: str, *at: str) -> list[str]:
    return place.git(*at, "for-each-ref", f"--format={shown}").splitlines()


@pytest.fixture(scope="module")
def scene(warm: Nursery) -> Iterator[Scene]:
    with in_memory() as folder:
        yield Scene(folder, warm)


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_that_is_killed_at_what_only_it_does_is_finished_by_calling_it_again(
    scene: Scene, command: str
) -> None:
    passes = [
        failpoint for failpoint in (await scene.undisturbed(command)).passes if failpoint.startswith(OWN[command])
    ]
    assert len(passes) >= 2 * len(OWN[command])
    for failpoint in passes:
        await scene.survives(command, failpoint)


async def test_an_archive_whose_last_line_was_torn_leaves_a_whole_log_when_it_is_called_again(scene: Scene) -> None:
    passes = (await scene.undisturbed("archive")).passes
    await scene.survives(
        "archive", [failpoint for failpoint in passes if failpoint.startswith("journal.append.torn:")][-1]
    )


@pytest.mark.torture
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_that_is_killed_anywhere_is_finished_by_calling_it_again(scene: Scene, command: str) -> None:
    for failpoint in (await scene.undisturbed(command)).passes:
        await scene.survives(command, failpoint)
