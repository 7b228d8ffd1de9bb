"""Folders of runs whose making was cut off: told of, and taken away on request."""

import os

from holdfast.engine.commands.doctor import diagnose
from holdfast.engine.home import Home
from holdfast.store.files.layout import run_folder, runs_folder
from holdfast.store.files.store import FileStore
from tests.support.run_files import RUN, inbox_file, put_content


async def test_what_is_left_of_a_run_can_be_taken_away(home: str) -> None:
    await FileStore(home).create(RUN)
    left = run_folder(home, "left-aaaaaa")
    os.mkdir(left)
    put_content(inbox_file(home, "left-aaaaaa"), b"")
    (ailment,) = await diagnose(Home(home), [])
    assert (ailment.subject, ailment.description) == (left, "is the rest of a run whose creation was interrupted")
    assert ailment.repair is not None
    assert os.path.isdir(left)
    await ailment.repair()
    assert os.listdir(runs_folder(home)) == [RUN]
    assert await diagnose(Home(home), []) == []
