"""The examples of docs/python-api.md are executed, one after the other, in a process of its own."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.repositories import git

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples_run_in_order(tmp_path: Path) -> None:
    repository = str(tmp_path / "example-repo")
    git(str(tmp_path), "init", "--quiet", repository)
    git(repository, "config", "user.name", "Ada")
    git(repository, "config", "user.email", "ada@example.org")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "Begin")
    program = "\n".join(_EXAMPLE.findall(PAGE.read_text()))
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Add OAuth login" in done.stdout


def test_importing_the_package_loads_no_module_of_it() -> None:
    program = "import sys, holdfast; print([name for name in sys.modules if name.startswith('holdfast.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
