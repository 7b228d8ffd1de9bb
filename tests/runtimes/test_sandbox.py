"""Facts of the sandbox alone."""

import os

import pytest
from msgspec import structs

from holdfast.agents.launch import Launch, Runtime
from holdfast.agents.process.tree import spawn
from holdfast.leaf.errors import BadInput
from tests.runtimes.test_repository import run


async def test_without_bubblewrap_it_is_told_what_to_install(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    launch = Launch(("/bin/true",), os.fspath(tmp_path), {}, "test", runtime=Runtime(kind="sandbox"))
    with pytest.raises(BadInput, match="apt install bubblewrap"):
        async with spawn(launch):
            pass


async def test_a_bubblewrap_that_may_not_work_here_is_told_of(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = os.path.join(tmp_path, "bwrap")
    with open(program, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    os.chmod(program, 0o755)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    launch = Launch(("/bin/true",), os.fspath(tmp_path), {}, "test", runtime=Runtime(kind="sandbox"))
    with pytest.raises(BadInput, match="No permissions to create new namespace"):
        async with spawn(launch):
            pass


async def test_keys_in_the_home_are_hidden_and_the_rest_is_not(
    boxed: Runtime, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = os.path.join(tmp_path, "home"), os.path.join(tmp_path, "work")
    for name in (".ssh/id", ".config/gh/hosts.yml", ".netrc", ".config/tool"):
        os.makedirs(os.path.dirname(os.path.join(home, name)), exist_ok=True)
        with open(os.path.join(home, name), "w", encoding="ascii") as file:
            file.write(name)
    os.mkdir(work)
    monkeypatch.setenv("HOME", home)
    script = "cat ~/.ssh/id ~/.config/gh/hosts.yml ~/.netrc 2>/dev/null; cat ~/.config/tool"
    seen = structs.replace(boxed, readable=(*boxed.readable, "~"))
    assert await run(seen, work, script) == (".config/tool", 0)
    named = structs.replace(seen, readable=(*seen.readable, "~/.ssh"))
    assert await run(named, work, script) == (".ssh/id.config/tool", 0)


async def test_sockets_of_the_machine_are_hidden(boxed: Runtime, tmp_path: os.PathLike[str]) -> None:
    said, _ = await run(boxed, os.fspath(tmp_path), "find /run /var/run/ -type s")
    assert said == ""


async def test_it_has_no_rights_of_root(boxed: Runtime, tmp_path: os.PathLike[str]) -> None:
    said, code = await run(boxed, os.fspath(tmp_path), "grep CapEff /proc/self/status; mount -o remount,rw / 2>&1")
    assert said.startswith("CapEff:\t0000000000000000")
    assert code != 0
