"""Stages: a lock counts only while its file is at its place."""

import os
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.store.files.staging import Stage, abandoned_stages, lock_stage, stages_folder


def test_stage_that_is_deleted_while_its_maker_waits_for_the_lock_is_not_taken(tmp_path: Path) -> None:
    """Another process found the folder before its maker had locked it, and took it for an abandoned one."""
    folder = tmp_path / "adopting" / "0f0f0f0f0f0f"
    folder.mkdir(parents=True)
    (found,) = abandoned_stages(os.fspath(tmp_path))
    locks: list[int | None] = []
    maker = threading.Thread(target=lambda: locks.append(lock_stage(os.fspath(folder), wait=True)))
    maker.start()
    while _times_open(folder / "lock") < 2:
        pass
    found.delete()
    found.close()
    maker.join()
    assert locks == [None]


def test_stage_in_use_is_not_abandoned(tmp_path: Path) -> None:
    stage = Stage.create(os.fspath(tmp_path))
    assert list(abandoned_stages(os.fspath(tmp_path))) == []
    stage.close()
    (found,) = abandoned_stages(os.fspath(tmp_path))
    assert found.folder == stage.folder
    found.delete()
    found.close()
    assert not os.path.exists(stages_folder(os.fspath(tmp_path)))


def test_rest_of_a_deleted_stage_is_deleted(tmp_path: Path) -> None:
    rest = tmp_path / "adopting" / ".deleted-0f0f0f0f0f0f"
    rest.mkdir(parents=True)
    (rest / "note.json").write_text("{}")
    assert list(abandoned_stages(os.fspath(tmp_path))) == []
    assert not rest.exists()


def _times_open(path: Path) -> int:
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{fd}") == str(path)
    return found
