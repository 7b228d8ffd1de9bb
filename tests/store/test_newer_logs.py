"""A log that a later version wrote: it is shown, and nobody here goes on with it."""

import pytest

from holdfast.core.events.session import SessionStart
from holdfast.leaf.errors import BadInput
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from holdfast.store.run import open_run

_NEWER = b'{"v":2,"ts":null,"sid":"s9","seq":0,"type":"task.failed","data":{"task":{"id":"1"}}}\n'


async def test_a_log_with_events_of_a_newer_version_is_read_but_not_written(tmp_path: object) -> None:
    store = FileStore(str(tmp_path))
    await store.create("r1")
    async with open_run(store, "r1") as run:
        await run.begin_session(SessionStart(command="run"))
    with open(f"{tmp_path}/runs/r1/events.jsonl", "ab") as log:
        log.write(_NEWER)
    state = (await fold_log(store.log("r1"))).fold.state
    assert (state.newer, state.unknown_types) == (1, {"task.failed v2": 1})
    with pytest.raises(BadInput, match="newer Holdfast"):
        async with open_run(store, "r1"):
            pass
