"""A run of a week stays light: what an agent repeats without end takes no log, memory or files."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agents.acp.recorder import EventRecorder
from holdfast.core.events import Event
from holdfast.core.events.session import RunArchived, RunCreated, SessionEnd, SessionStart
from holdfast.store.files.layout import LOG, run_folder
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.cli.runs import said
from tests.support.wait import open_descriptors

RUN = "soak-abc234"
UPDATES = 300_000
MESSAGES = 100_000
_PROGRAM = """
import resource, sys
from holdfast.app.cli.main import main
code = main(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.torture
async def test_progress_without_end_takes_no_log_and_no_memory(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    await store.create(RUN)
    async with open_run(store, RUN, feature="soak") as run:
        await run.begin_session(SessionStart(), RunCreated(run_id=RUN, goal="soak"))

        async def store_events(*events: Event) -> None:
            await run.append(*events)

        recorder = EventRecorder("c", store_events, lambda *_: None)
        recorder.begin_turn("t")
        await recorder.update({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Build"})
        files, memory = open_descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(UPDATES):
            text = f"\r{number} of {UPDATES}" + "." * (number % 1000)
            content = [{"type": "content", "content": {"type": "text", "text": text}}]
            await recorder.update({"sessionUpdate": "tool_call_update", "toolCallId": "1", "content": content})
            if number % 10 == 0:
                await recorder.update({"sessionUpdate": "plan", "entries": [{"content": text}]})
        await recorder.flush(*recorder.final_events())
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert Path(run_folder(str(tmp_path), RUN), LOG).stat().st_size < 1_000_000
    assert open_descriptors() <= files
    assert grown < 64 * 1024


@pytest.mark.torture
async def test_long_run_is_pruned_with_bounded_memory(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    await store.create(RUN)
    async with open_run(store, RUN, feature="soak") as run:
        await run.begin_session(SessionStart(), RunCreated(run_id=RUN, goal="soak"))
        for start in range(0, MESSAGES, 500):
            await run.append(*(said(f"{number} {'kelp ' * 120}") for number in range(start, start + 500)))
        await run.append(RunArchived(salvaged=[]), SessionEnd(reason="all_done"))
    before = Path(run_folder(str(tmp_path), RUN), LOG).stat().st_size
    environment = {**os.environ, "HOLDFAST_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", _PROGRAM, "prune", RUN, "--to", "transcripts", "-y"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stderr.split("peak ")[1]) < 200
    after = Path(run_folder(str(tmp_path), RUN), f"{LOG}.gz").stat().st_size
    assert after < before / 8
    check = subprocess.run(
        [sys.executable, "-m", "holdfast", "verify", RUN], env=environment, capture_output=True, text=True, check=True
    )
    assert f"{MESSAGES} events withheld" in check.stdout
