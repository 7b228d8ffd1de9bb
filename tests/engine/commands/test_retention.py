"""The steps of retention, when what does them is interrupted."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.core.events.issue import WarningLogged
from holdfast.core.events.session import RunArchived
from holdfast.engine.commands.retention.steps import RetentionStep, apply_step
from holdfast.engine.home import Home
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.run import open_run
from tests.cli.runs import DONE, make_run, said
from tests.support.wait import until

_MANY = 1500  # messages: enough that their compression is seen before it ends


@pytest.fixture
def long_run(tmp_path: Path) -> str:
    words = [said(os.urandom(2000).hex()) for _ in range(_MANY)]
    return make_run(os.fspath(tmp_path), "long-abc234", *words, RunArchived(salvaged=[]), DONE)


async def test_cancelled_compression_keeps_the_run_until_it_is_done(tmp_path: Path, long_run: str) -> None:
    """Its thread cannot be stopped, and deletes the plain log at its end: nobody may write to it meanwhile."""
    home, run_id = os.fspath(tmp_path), long_run
    temporary = f"{os.path.join(run_folder(home, run_id), LOG)}.gz.tmp"
    step = asyncio.create_task(apply_step(Home(home), run_id, RetentionStep.COMPRESS))
    await until(lambda: os.path.exists(temporary))
    step.cancel()
    with suppress(asyncio.CancelledError):
        await step
    async with open_run(Home(home).store, run_id) as run:
        await asyncio.get_running_loop().shutdown_default_executor()
        written = await run.append(WarningLogged(message="still here"))
    found = b"".join([batch.data async for batch in Home(home).store.log(run_id).read()])
    assert found.endswith(written.data)
