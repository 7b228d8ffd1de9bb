"""A session of 100 MB is adopted line by line: the memory that it takes does not grow with it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.projects import Project

_MEGABYTES = 100
_MAX_MB = 256
_PROGRAM = """
import resource, sys
from holdfast.app.cli.main import main
code = main(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.torture
def test_large_session_is_streamed(tmp_path: Path) -> None:
    project = Project.make(os.fspath(tmp_path))
    path = tmp_path / "0f0f0f0f.jsonl"
    calls = _write_session(path, project.path)
    environment = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    book = tmp_path / "book.json"
    book.write_text(json.dumps({"turns": [], "otherwise": [{"say": "fine"}]}))
    arguments = ["adopt", str(path), "--repo", project.path, "--agent", f"playbook:{book}", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["entries"] == 4 * calls
    peak = re.search(r"peak (\d+)", done.stderr)
    assert peak is not None
    assert int(peak[1]) < _MAX_MB


def _write_session(path: Path, repo: str) -> int:
    """Write turns of a prompt, a call, its result and an answer. Returns how many."""
    common = {"timestamp": "2026-03-01T10:00:00Z", "sessionId": "large", "cwd": repo, "gitBranch": "main"}
    turns, parent = 0, None
    with path.open("w") as file:
        while file.tell() < _MEGABYTES * 1_000_000:
            call = {"type": "tool_use", "id": f"t{turns}", "name": "Read", "input": {"path": "x" * 200}}
            result = {"type": "tool_result", "tool_use_id": f"t{turns}", "content": "y" * 3000}
            for place, (kind, content) in enumerate(
                [("user", "go on"), ("assistant", [call]), ("user", [result]), ("assistant", "z" * 1500)]
            ):
                name = f"{turns}-{place}"
                item = {"uuid": name, "parentUuid": parent, "type": kind, "message": {"content": content}, **common}
                file.write(json.dumps(item) + "\n")
                parent = name
            turns += 1
    return turns
