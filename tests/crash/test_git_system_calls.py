"""SIGKILL at every system call with which git changes a file, in every effect: then it is done once, all the same."""

import shutil

import pytest

from tests.support.git_crash import Play
from tests.support.git_scenes import KINDS
from tests.support.git_stage import Stage

CALLS = ("write", "rename", "unlink", "mkdir", "rmdir", "link", "exit_group")
MOST = 400


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace finds the system calls")
@pytest.mark.parametrize("who", ["both", "git"])
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_at_any_system_call_of_git_an_effect_is_done_once(stage: Stage, kind: str, who: str) -> None:
    play = await Play.prepare(stage, kind)
    for command in range(1, MOST):
        for call in CALLS:
            for nth in range(1, MOST):
                play.set_back()
                stage.doom(who, command, call, nth)
                with play.orchestrator() as orchestrator:
                    orchestrator.hear()
                    orchestrator.wait()
                if stage.made_no_such_call():
                    break
                if stage.doomed():
                    return  # there is no such command
                await play.finish()
                await play.must_be_as_if_nothing_had_been()
