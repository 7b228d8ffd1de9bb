"""What a cluster needs is loaded only by workers and by the program that submits a run."""

import os
import subprocess
import sys

import pytest

_ASK = """
import sys
from holdfast.app.cli.main import main
code = main({arguments})
heavy = [name for name in ("asyncpg", "temporalio") if name in sys.modules]
sys.exit(f"loaded {{heavy}}" if heavy else code)
"""


@pytest.mark.parametrize("arguments", [["ls"], ["--help"], ["worker", "--help"], ["doctor", "--help"]])
def test_local_commands_load_no_client_of_the_cluster(home: str, arguments: list[str]) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _ASK.format(arguments=arguments)],
        env={**plain, "HOLDFAST_HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
