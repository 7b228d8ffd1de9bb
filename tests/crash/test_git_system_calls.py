"""SIGKILL at every system call with which git changes a file, and at any moment: it is done once, all the same."""

import random
import select
import shutil

import pytest

from tests.support.effect_crash import Prepared
from tests.support.effect_scenes import KINDS

CALLS = ("write", "rename", "unlink", "mkdir", "rmdir", "link", "exit_group")
MOST = 400


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace finds the system calls")
@pytest.mark.parametrize("who", ["both", "git"])
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_at_any_system_call_of_git_an_effect_is_done_once(prepared: Prepared, kind: str, who: str) -> None:
    play = await prepared(kind)
    stage = play.stage
    for command in range(1, MOST):
        for call in CALLS:
            for nth in range(1, MOST):
                play.set_back()
                stage.git_fault.kill(who, command, call, nth)
                with play.orchestrator() as orchestrator:
                    orchestrator.hear()
                    orchestrator.wait()
                if stage.git_fault.made_no_such_call():
                    break
                if stage.git_fault.is_pending():
                    return  # there is no such command
                await play.finish()
                await play.must_be_as_if_nothing_had_been()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_at_any_moment_an_effect_is_done_once(prepared: Prepared, kind: str, seed: int) -> None:
    """The orchestrator alone: its git may still be at work when the run is opened again."""
    dice = random.Random(f"{kind} {seed}")
    play = await prepared(kind)
    for _ in range(25):
        play.set_back()
        with play.orchestrator() as orchestrator:
            select.select([orchestrator.fileno()], [], [], dice.random() * 0.3)
            orchestrator.kill()
        await play.finish()
        await play.must_be_as_if_nothing_had_been()
