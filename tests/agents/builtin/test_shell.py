"""Facts of shell commands: of one that ended, or was cut off, nothing is left."""

import os
import shlex
import subprocess

import pytest

from holdfast.agents.builtin.shell import Shell, kill_leftovers
from holdfast.leaf.process.env_markers import SESSION_MARK, marked_processes
from tests.support.hopping_process import hopping

SEVERAL = range(3)  # one of them might be met by chance

pytestmark = pytest.mark.torture  # those who hop take all of a machine, and from the tests beside them


async def test_those_who_are_others_every_moment_end_with_their_command(tmp_path: os.PathLike[str]) -> None:
    session = os.fspath(tmp_path)
    with hopping(tmp_path) as hopper:
        script = "\n".join(f"setsid {shlex.join(hopper)}" for _ in SEVERAL)
        ran = await Shell(session, os.environ, session).run(script, "a call", 20)
        assert ran.exit_code == 0
        for _ in range(10):
            assert marked_processes(SESSION_MARK, session) == []


def test_those_who_are_others_every_moment_are_ended_by_the_next_session(tmp_path: os.PathLike[str]) -> None:
    session = os.fspath(tmp_path)
    with hopping(tmp_path) as hopper:
        for _ in SEVERAL:
            subprocess.run(hopper, env={**os.environ, SESSION_MARK: session}, check=True)
        kill_leftovers(session)
        for _ in range(10):
            assert marked_processes(SESSION_MARK, session) == []
