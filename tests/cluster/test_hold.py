"""A worker kills a silent session while its lease still has time, whatever the time of leases is."""

import asyncio
from pathlib import Path

import pytest

from holdfast.core.end_reason import EndReason
from holdfast.engine.commands.cluster.hold import Hold, silence_s
from holdfast.engine.commands.cluster.session_report import ReportKind
from holdfast.engine.commands.cluster.setbacks import MAX_FAULTS
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.store.files.store import FileStore
from holdfast.store.postgres.lease import TTL_VARIABLE
from holdfast.store.run import open_run
from tests.support.run_files import RUN
from tests.support.wait import until

_LEAST_LEFT = 0.8  # of a lease, at the last sign of a session that renews it


@pytest.mark.parametrize("lease_s", [1.0, 3.0, 15.0, 60.0, 3600.0])
def test_silence_is_shorter_than_what_is_left_of_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lease_s: float
) -> None:
    monkeypatch.setenv(TTL_VARIABLE, str(lease_s))
    assert silence_s(Home(tmp_path, "postgresql://localhost/none")) < 0.75 * _LEAST_LEFT * lease_s


async def test_instructions_are_no_argument_of_a_session(tmp_path: Path) -> None:
    """Every user of the machine sees the arguments of a process."""
    home = Home(tmp_path)
    await FileStore(home.path).create(RUN)
    async with open_run(home.store, RUN):  # so that the session waits, and can be looked at
        hold = Hold(home, RUN)
        holding = asyncio.create_task(hold.run(["--on-issue=restart", "--instructions=the key is kelp"]))
        await until(lambda: hold.waits_for is not None)
        assert hold._process is not None
        arguments = Path(f"/proc/{hold._process.pid}/cmdline").read_bytes()
        hold.drain()
        report = await holding
    assert report.kind is ReportKind.DRAINED
    assert RUN.encode() in arguments
    assert b"kelp" not in arguments


async def test_process_that_dies_before_its_session_begins_is_retried_with_delays_then_the_run_is_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "import os, sys\nif any('session_program' in word for word in sys.orig_argv): os._exit(3)\n"
    (tmp_path / "sitecustomize.py").write_text(broken, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    home = Home(tmp_path / "home")
    await FileStore(home.path).create(RUN)
    reports = [await Hold(home, RUN).run([]) for _ in range(MAX_FAULTS)]
    assert [report.kind for report in reports[:-1]] == [ReportKind.DIED] * (MAX_FAULTS - 1)
    delays = [report.after_s or 0.0 for report in reports[:-1]]
    assert delays == sorted(delays)
    assert delays[0] < delays[-1]
    assert (reports[-1].kind, reports[-1].reason) == (ReportKind.ENDED, EndReason.PARKED)
    view = await view_run(home, RUN)
    assert view.status == EndReason.PARKED
    assert "ended with code 3 before the session began; see " in (reports[-1].detail or "")
