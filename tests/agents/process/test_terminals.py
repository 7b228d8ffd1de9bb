"""Facts of terminals: real processes in the worktree, whose output is bounded, and of whom nothing is left."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from holdfast.agents.launch import Launch
from holdfast.agents.process.terminals import Terminals
from holdfast.leaf.errors import BadInput, Denied
from holdfast.leaf.process.env_markers import RUN_MARK
from tests.agents.company import is_alive
from tests.support.wait import PATIENCE, until


@pytest.fixture
def cwd(tmp_path: os.PathLike[str]) -> str:
    return os.fspath(tmp_path)


@pytest.fixture
async def terminals(cwd: str) -> AsyncIterator[Terminals]:
    open_ones = Terminals(
        Launch(("agent",), cwd, {RUN_MARK: "the run", "MODEL_API_KEY": "secret", "PLAIN": "plain"}, "test/terminals")
    )
    yield open_ones
    await open_ones.close()


async def run(terminals: Terminals, command: str, most: int | None = None) -> str:
    return await terminals.create(command, [], None, {}, most)


async def test_a_command_line_is_run_by_a_shell_and_words_are_not(terminals: Terminals) -> None:
    line = await run(terminals, "echo one | cat; exit 3")
    assert await terminals[line].wait_for_exit() == ("one\n", False, 3, None)
    words = await terminals.create("echo", ["$HOME", "a | b"], None, {}, None)
    assert (await terminals[words].wait_for_exit()).text == "$HOME a | b\n"


async def test_both_outputs_are_one(terminals: Terminals) -> None:
    name = await run(terminals, "echo out; echo err >&2")
    assert (await terminals[name].wait_for_exit()).text == "out\nerr\n"


async def test_it_runs_in_the_worktree_and_cannot_be_put_elsewhere(terminals: Terminals, cwd: str) -> None:
    os.makedirs(os.path.join(cwd, "sub"))
    name = await terminals.create("pwd", [], "sub", {}, None)
    assert (await terminals[name].wait_for_exit()).text == f"{os.path.realpath(cwd)}/sub\n"
    for outside in ("..", "/", "/tmp"):
        with pytest.raises(Denied):
            await terminals.create("pwd", [], outside, {}, None)
    with pytest.raises(BadInput):
        await terminals.create("pwd", [], "nowhere", {}, None)


async def test_a_command_gets_what_it_was_given_but_not_the_agents_secrets(terminals: Terminals) -> None:
    given = {"MINE": "1", RUN_MARK: "another run"}
    name = await terminals.create("env", [], None, given, None)
    said = (await terminals[name].wait_for_exit()).text.splitlines()
    assert {"MINE=1", "PLAIN=plain", f"{RUN_MARK}=the run"} <= set(said)
    assert not [line for line in said if line.startswith("MODEL_API_KEY")]


async def test_output_is_kept_from_the_end_and_cut_at_whole_characters(terminals: Terminals) -> None:
    name = await run(terminals, "printf 'äöü€'", 4)
    assert await terminals[name].wait_for_exit() == ("€", True, 0, None)
    name = await run(terminals, "printf '€€'", 5)
    assert (await terminals[name].wait_for_exit()).text == "€"


async def test_half_a_character_waits_for_its_other_half(terminals: Terminals, cwd: str) -> None:
    os.mkfifo(os.path.join(cwd, "gate"))
    name = await run(terminals, "printf 'a\\303'; cat gate > /dev/null; printf '\\244'")
    await until(lambda: terminals[name].output().text != "")
    assert terminals[name].output().text == "a"
    with open(os.path.join(cwd, "gate"), "w", encoding="ascii"):
        pass
    assert (await terminals[name].wait_for_exit()).text == "aä"


async def test_no_output_is_kept_for_an_agent_that_wants_none(terminals: Terminals) -> None:
    name = await run(terminals, "echo something", 0)
    assert await terminals[name].wait_for_exit() == ("", True, 0, None)


async def test_more_than_is_sensible_is_not_kept(terminals: Terminals) -> None:
    name = await run(terminals, "head -c 3000000 /dev/zero | tr '\\0' x", 10**12)
    found = await terminals[name].wait_for_exit()
    assert found.is_truncated
    assert len(found.text) == 1024 * 1024


async def test_a_command_at_work_has_no_outcome_yet(terminals: Terminals) -> None:
    name = await run(terminals, "echo ready; sleep 600")
    await until(lambda: terminals[name].output().text == "ready\n")
    assert terminals[name].output() == ("ready\n", False, None, None)


async def test_a_killed_command_dies_with_all_that_it_started_and_can_still_be_read(terminals: Terminals) -> None:
    name = await run(terminals, "setsid sleep 600 & echo $!; wait")
    await until(lambda: terminals[name].output().text != "")
    pid = int(terminals[name].output().text)
    await terminals[name].kill()
    assert not is_alive(pid)
    assert terminals[name].output() == (f"{pid}\n", False, None, "SIGKILL")


async def test_the_end_is_learned_though_an_orphan_holds_the_output(terminals: Terminals) -> None:
    name = await run(terminals, "setsid sleep 600 & echo $!; exit 4")
    async with asyncio.timeout(PATIENCE):
        found = await terminals[name].wait_for_exit()
    assert found.exit_code == 4
    assert is_alive(int(found.text))
    await terminals.release(name)
    assert not is_alive(int(found.text))


async def test_a_released_terminal_is_gone(terminals: Terminals) -> None:
    name = await run(terminals, "sleep 600")
    tree = terminals[name]._tree
    await terminals.release(name)
    assert not tree.identity.is_alive()
    with pytest.raises(BadInput, match=name):
        terminals[name]
    await terminals.release(name)


async def test_nothing_outlives_the_closing(terminals: Terminals) -> None:
    trees = [terminals[await run(terminals, "trap '' TERM; sleep 600")]._tree for _ in range(3)]
    await terminals.close()
    assert not any(tree.identity.is_alive() for tree in trees)


@pytest.mark.parametrize("command", ["no-such-program", "a\0b"])
async def test_a_program_that_cannot_be_started_is_told_of(terminals: Terminals, command: str) -> None:
    with pytest.raises(BadInput):
        await terminals.create(command, ["x"], None, {}, None)
