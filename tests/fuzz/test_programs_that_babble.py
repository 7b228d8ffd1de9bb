"""What hooks and `gh` print may be anything: it is taken or refused in words, and takes a bounded place in memory."""

import json
import os
import stat
from pathlib import Path

import pytest

from holdfast.engine.hooks.process import run_hook
from holdfast.git.remote import find_pull_request, read_issue
from holdfast.git.repository import Repository, find_repository
from holdfast.leaf.errors import HoldfastError
from tests.support.projects import Project

SAID = [
    b"",
    b"\xff\xfe\0",
    b"null",
    b"7",
    b'"text"',
    b"[]",
    b"[null]",
    b"[[]]",
    b'[{"url": {"a": 1}}]',
    b'{"title": null}',
    b'{"title": 1, "body": [2]}',
    b'{"title": "half \\ud800", "body": "\\u0000"}',
    b"[" * 100_000,
    b'{"title": "' + b"x" * 1_000_000,
    b"9" * 5_000,
]


@pytest.fixture
async def repository(project: Project) -> Repository:
    return await find_repository(project.path)


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `gh` prints, whatever it is asked."""
    gh, said = tmp_path / "bin" / "gh", tmp_path / "said"
    gh.parent.mkdir()
    gh.write_text(f"#!/bin/sh\nexec cat {said}\n")
    gh.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{gh.parent}{os.pathsep}{os.environ['PATH']}")
    return said


@pytest.mark.parametrize("what", SAID, ids=lambda what: repr(what[:20]))
async def test_gh_may_print_anything(repository: Repository, said: Path, what: bytes) -> None:
    said.write_bytes(what)
    for ask in (read_issue(repository, 7), find_pull_request(repository, None, "branch")):
        try:
            found = await ask
        except HoldfastError as error:
            assert len(str(error)) < 1_000  # noqa: PT017 - it may do either
        else:
            assert json.loads(json.dumps(found).encode()) == (list(found) if isinstance(found, tuple) else found)


@pytest.mark.parametrize("what", SAID, ids=lambda what: repr(what[:20]))
async def test_a_hook_may_print_anything(tmp_path: Path, what: bytes) -> None:
    (tmp_path / "said").write_bytes(what)
    answer = await run_hook(["cat", "said"], str(tmp_path), b"told", run_id=None)
    assert (answer.exit_code, answer.problem) == (0, None)
    assert answer.output.encode() or not what.split()


async def test_a_hook_that_floods_us_takes_no_memory(tmp_path: Path) -> None:
    answer = await run_hook(["head", "-c", "30000000", "/dev/zero"], str(tmp_path), b"x" * 1_000_000, run_id=None)
    assert answer.exit_code == 0
    assert "bytes left out" in answer.output
    assert len(answer.output) < 20_000


async def test_a_hook_whose_name_cannot_be_one_is_told(tmp_path: Path) -> None:
    answer = await run_hook(["no\0name"], str(tmp_path), b"", run_id=None)
    assert answer.problem is not None
