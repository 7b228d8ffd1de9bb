"""A cluster run whose machine is killed while its files go over git: the next machine has every one of them, once.

Each act is done by a process that dies at a failpoint, and done again by the same machine or by another one.
"""

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.git.cluster.remote_refs import list_remote_refs
from holdfast.git.repository import Repository
from tests.support.logs import assert_whole, whole
from tests.support.machine_child import act, act_and_die, run_id_in
from tests.support.machines import Machine
from tests.support.processes import KILLED, child
from tests.support.projects import Project
from tests.support.variants import every, first

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
SHARED = ["heads/T-1", "heads/main", "owner"]


def both_sides(*families: str) -> list[str]:
    return [f"{family}.{side}:1" for family in families for side in ("before", "after")]


class Scene(NamedTuple):
    """What was done before by `ada`, and what is killed. `refs` are those of the run on the remote in the end."""

    earlier: tuple[str, ...]
    action: str
    failpoints: list[str]
    refs: list[str]


SCENES = {
    "create": Scene(
        (),
        "create",
        both_sides("effect.cluster.take_over", "cluster.push", "cluster.epochs.forget"),
        ["heads/main", "owner"],
    ),
    "work": Scene(
        ("create",),
        "work",
        [
            *both_sides("machine.name", "mirror.clone", "effect.cluster.take_over", "cluster.epochs", "cluster.push"),
            "cluster.push.before:4",  # of the task's commit
            "cluster.push.after:4",
        ],
        SHARED,
    ),
    "continue": Scene(
        ("create", "work"), "work", both_sides("effect.cluster.take_over", "cluster.epochs", "cluster.push"), SHARED
    ),
    "read": Scene(("create", "work"), "read", both_sides("mirror.clone", "cluster.seen"), SHARED),
    "drop": Scene(("create", "work"), "drop", both_sides("effect.cluster.drop"), []),
}
KILLS = [(name, failpoint) for name, scene in SCENES.items() for failpoint in scene.failpoints]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("next_machine", first("bob", "carol"))
@pytest.mark.parametrize(("name", "failpoint"), every(4, KILLS))
async def test_killed_machine_loses_no_files_of_its_run(
    tmp_path: Path, name: str, failpoint: str, next_machine: str
) -> None:
    scene, folder, run_id = SCENES[name], str(tmp_path), run_id_in(str(tmp_path))
    project = Project.make(folder)
    for action in scene.earlier:
        await act(folder, "ada", action)
    killed = "ada" if name == "create" else "bob"
    with child(act_and_die, IDENTITY, folder, killed, scene.action, failpoint) as machine:
        assert machine.wait() == KILLED, machine.hear_all()
    again = killed if name == "create" else next_machine
    await act(folder, again, scene.action)
    await act(folder, again, scene.action)  # nothing is left to do
    remote = await list_remote_refs(Repository(project.remote), project.remote, run_id)
    assert sorted(name for name in remote.named if name == "owner" or name.startswith("heads/")) == scene.refs
    assert len(remote.everything) == len(remote.named), "no refs of an earlier owner are left"
    if "heads/T-1" in remote.named:
        files = project.git("ls-tree", "--name-only", remote.named["heads/T-1"], at=project.remote).split()
        assert "new.txt" in files
        new = f"{remote.named['heads/main']}..{remote.named['heads/T-1']}"
        count = project.git("rev-list", "--count", new, at=project.remote)
        assert int(count) == 1, "the task was committed once"
    assert_whole(await whole(Machine(folder, again).store, run_id))
