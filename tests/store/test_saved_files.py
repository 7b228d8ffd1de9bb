"""A file that is saved with a run is the new one or the old one, whenever its writer is killed."""

from pathlib import Path

import pytest

from holdfast.store.files.store import FileStore
from tests.support.children import act_on_database
from tests.support.processes import KILLED, child
from tests.support.run_files import RUN

_FOUND = {"run.file.before": b"old", "run.file.torn": b"old", "run.file.after": b"new"}


@pytest.mark.parametrize("failpoint", _FOUND)
async def test_killed_writer_leaves_a_whole_file(home: str, tmp_path: Path, failpoint: str) -> None:
    store, passes = FileStore(home), tmp_path / "passes"
    await store.create(RUN)
    await store.save_file(RUN, "attachments/a", b"old")
    passes.touch()
    with child(act_on_database, home, "file", f"{failpoint}:1", str(passes)) as writer:
        assert writer.wait() == KILLED
    assert await store.load_file(RUN, "attachments/a") == _FOUND[failpoint]
    await store.save_file(RUN, "attachments/a", b"new")
    assert await store.load_file(RUN, "attachments/a") == b"new"
