"""Ways to die in the middle of a step: at a moment, at the n-th git that it calls, at the n-th hook that git calls.

The last two come at the same place each time, and hold the locks that git holds there. Besides the owner, git itself
may die, or live on as an orphan, or die alone, so that its caller sees it fail.
"""

import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from holdfast.leaf.process.env_markers import RUN_MARK, marked_processes
from holdfast.leaf.process.identity import kill_processes
from tests.support.processes import Child, child
from tests.support.story_steps import OWNER, Scene, Step, act

HOOKS = (
    "reference-transaction",
    "post-index-change",
    "post-checkout",
    "pre-commit",
    "prepare-commit-msg",
    "post-commit",
    "pre-merge-commit",
    "post-merge",
    "pre-push",
)
_COUNT = """#!/bin/sh
n=$(($(cat "{counter}" 2>/dev/null || echo 0) + 1))
echo $n >"{counter}"
"""
_HOOK = f"""{_COUNT}
[ $n -eq {{at}} ] || exit 0
case {{how}} in
  owner) kill -9 ${OWNER} ;;
  asleep) kill -9 ${OWNER}; exec sleep 20 ;;
  both) kill -9 ${OWNER} $PPID ;;
  git) kill -9 $PPID ;;
esac
"""
_GIT = f"""{_COUNT}
[ $n -eq {{at}} ] || exec {{git}} "$@"
case {{how}} in
  before) kill -9 ${OWNER} ;;
  owner) kill -9 ${OWNER}; exec {{git}} "$@" ;;
  after) {{git}} "$@"; kill -9 ${OWNER} ;;
  git) {{git}} "$@" & sleep 0.00{{tenths}}; kill -9 $! 2>/dev/null; kill -9 $$ ;;
esac
"""


class Crash(NamedTuple):
    """`where` is a moment, a git or a hook; `at` is which one, or how many milliseconds."""

    where: str
    how: str
    at: int


def any_crash(dice: random.Random) -> Crash:
    where = dice.choice(("moment", "git", "git", "hook", "hook"))
    if where == "moment":
        return Crash(where, dice.choice(("owner", "both")), dice.randrange(120))
    if where == "git":
        return Crash(where, dice.choice(("before", "owner", "after", "git")), dice.randrange(1, 26))
    return Crash(where, dice.choice(("owner", "asleep", "both", "git")), dice.randrange(1, 9))


def act_and_crash(scene: Scene, step: Step, crash: Crash, folder: str) -> str | None:
    """Take a step in a child that is killed as told. Returns what it said; None when it was killed before that."""
    with _trap(scene, crash, folder) as environment, child(act, scene, step, environment) as actor:
        assert actor.hear() in ("begun", None)
        if crash.where == "moment":
            _kill_at(actor, crash, scene)
        return actor.hear()


def _kill_at(actor: Child, crash: Crash, scene: Scene) -> None:
    time.sleep(crash.at / 1000)
    actor.kill()
    if crash.how == "both":
        assert not kill_processes(marked_processes(RUN_MARK, scene.run_id))


@contextmanager
def _trap(scene: Scene, crash: Crash, folder: str) -> Iterator[Mapping[str, str]]:
    """The hooks, or the git, that wait for their time. They are not there at other times: they cost some."""
    counter, hooks = os.path.join(folder, "counter"), os.path.join(scene.common_dir, "hooks")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    about = {"counter": counter, "at": crash.at, "how": crash.how, "git": shutil.which("git"), "tenths": crash.at % 8}
    if crash.where == "git":
        _program(os.path.join(folder, "git"), _GIT.format(**about))
    made = [os.path.join(hooks, name) for name in HOOKS] if crash.where == "hook" else []
    os.makedirs(hooks, exist_ok=True)
    for hook in made:
        _program(hook, _HOOK.format(**about))
    try:
        yield {"PATH": f"{folder}:{os.environ['PATH']}"}
    finally:
        for hook in made:
            os.unlink(hook)


def _program(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def orphans(run_id: str) -> bool:
    return bool(marked_processes(RUN_MARK, run_id))
