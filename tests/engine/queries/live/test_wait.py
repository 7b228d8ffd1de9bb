"""Waiting until nobody is at work on a run: a lock that cannot be asked for is not one that is free."""

from pathlib import Path

from tests.support.faults import run_with_faults

WAIT = """
import asyncio, os, sys
from holdfast.engine.home import Home
from holdfast.engine.queries.live.wait import wait_until_free
from holdfast.leaf.errors import StorageFailed

try:
    asyncio.run(wait_until_free(Home(sys.argv[1]), "auth-abc234"))
except StorageFailed as error:
    sys.exit(0 if "No locks available" in str(error) else f"{error}")
sys.exit("it is taken for free")
"""


def test_a_lock_that_cannot_be_asked_for_is_not_taken_for_free(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "auth-abc234"
    folder.mkdir(parents=True)
    (folder / "owner.lock").touch()
    run_with_faults(WAIT, str(tmp_path), trace="flock", faults="flock:error=ENOLCK")
