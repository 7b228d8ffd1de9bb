"""Notifications are delivered at least once, with the same id, by a real HTTP request; quiet hours hold them back."""

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.config.operations import NotifyTarget
from holdfast.core.events.session import RunCreated, SessionEnd, SessionStart
from holdfast.core.notify.kinds import NotificationKind
from holdfast.engine.commands.daily_digest import send_due_digests
from holdfast.engine.home import Home
from holdfast.engine.notify.notifier import Notifier, notifying
from holdfast.engine.notify.outbox import Outbox
from holdfast.leaf.wall_clock import WallClock
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.http_receiver import Receiver, receiving
from tests.support.wait import until

RUN = "auth-abc234"


class SetClock(WallClock):
    """Sleeping takes no time and moves the clock."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
async def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    await FileStore(made.path).create(RUN)
    async with open_run(FileStore(made.path), RUN) as run:
        await run.begin_session(SessionStart(command="run"), RunCreated(run_id=RUN, goal="g"))
    return made


async def end_session(home: Home, *reasons: str) -> None:
    for reason in reasons:
        async with open_run(FileStore(home.path), RUN) as run:
            await run.begin_session(SessionStart(command="resume"), SessionEnd(reason=reason))


def ids(receiver: Receiver) -> list[str]:
    return [request.headers["webhook-id"] for request in receiver.requests]


async def test_end_of_a_session_is_posted_and_signed(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    target = NotifyTarget(webhook=f"{receiver.url}/hook?x=1", key_variable="HOOK_SECRET")
    async with notifying(home, RUN, {"phone": target}):
        await end_session(home, "all_done")
    (request,) = receiver.requests
    assert request.path == "/hook?x=1"
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    body = json.loads(request.body)
    assert (body["kind"], body["run"], body["id"]) == ("done", RUN, request.headers["webhook-id"])
    assert Outbox(home.folder(RUN)).load().entries == []


async def test_a_key_from_a_file_signs_and_one_that_is_missing_sends_nothing(
    home: Home, receiver: Receiver, tmp_path: Path
) -> None:
    target = NotifyTarget(webhook=receiver.url, key_file=os.fspath(tmp_path / "key"))
    async with notifying(home, RUN, {"phone": target}):
        await end_session(home, "all_done")
    assert receiver.requests == []
    state = Outbox(home.folder(RUN)).load()
    assert "No such file" in (state.last_problem or "")
    (tmp_path / "key").write_bytes(b"whsec_" + base64.b64encode(b"raw key") + b"\n")
    await Notifier(home, RUN, {"phone": target}, SetClock(state.entries[0].due)).drain()
    (request,) = receiver.requests
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    expected = base64.b64encode(hmac.new(b"raw key", signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"


async def test_a_key_that_is_not_base64_is_named(home: Home, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"whsec_a")
    target = NotifyTarget(webhook=receiver.url, key_file=os.fspath(tmp_path / "key"))
    async with notifying(home, RUN, {"phone": target}):
        await end_session(home, "all_done")
    assert receiver.requests == []
    assert "begins with whsec_ but is not Base64 after that" in (Outbox(home.folder(RUN)).load().last_problem or "")


async def test_refused_delivery_is_tried_again_with_growing_pauses_and_the_same_id(
    home: Home, receiver: Receiver
) -> None:
    receiver.answers = [500, 429, 302]
    targets = {"phone": NotifyTarget(webhook=receiver.url)}
    async with notifying(home, RUN, targets):
        await end_session(home, "error")
    assert len(receiver.requests) == 1
    clock = SetClock(Outbox(home.folder(RUN)).load().entries[0].due)
    begun = clock.at
    await Notifier(home, RUN, targets, clock).drain()
    assert len(receiver.requests) == 4
    assert len(set(ids(receiver))) == 1
    assert clock.at - begun >= 10 + 20


async def test_a_receiver_that_stays_away_is_given_up_after_days(home: Home) -> None:
    targets = {"phone": NotifyTarget(webhook="http://127.0.0.1:9/")}
    async with notifying(home, RUN, targets):
        await end_session(home, "all_done")
    clock = SetClock(Outbox(home.folder(RUN)).load().entries[0].due)
    begun = clock.at
    await Notifier(home, RUN, targets, clock).drain()
    state = Outbox(home.folder(RUN)).load()
    assert (state.entries, state.given_up) == ([], 1)
    assert 3 * 86_400 < clock.at - begun < 4 * 86_400


async def test_a_receiver_that_hangs_holds_up_neither_the_session_nor_another_target(
    home: Home, receiver: Receiver
) -> None:
    receiver.hangs = True
    with receiving() as other:
        targets = {"slow": NotifyTarget(webhook=receiver.url), "quick": NotifyTarget(webhook=other.url)}
        async with asyncio.timeout(60), notifying(home, RUN, targets):
            await end_session(home, "all_done")
        assert len(other.requests) == 1
    (entry,) = Outbox(home.folder(RUN)).load().entries
    assert entry.target == "slow"
    receiver.released.set()
    receiver.hangs = False
    await Notifier(home, RUN, targets, SetClock(entry.since)).drain()
    assert len(set(ids(receiver))) == 1
    assert len(receiver.requests) == 2


async def test_only_the_kinds_of_a_target_are_sent(home: Home, receiver: Receiver) -> None:
    target = NotifyTarget(webhook=receiver.url, kinds=(NotificationKind.DONE,))
    async with notifying(home, RUN, {"phone": target}):
        await end_session(home, "quota", "error", "all_done")
    assert [json.loads(request.body)["kind"] for request in receiver.requests] == ["done"]


async def test_quiet_hours_hold_back_all_but_the_urgent_and_end_with_a_digest(home: Home, receiver: Receiver) -> None:
    target = NotifyTarget(webhook=receiver.url, quiet="22:00-07:00", urgent=(NotificationKind.NEEDS_YOU,))
    night = dt.datetime(2026, 2, 14, 23).astimezone().timestamp()
    clock = SetClock(night)
    notifier = Notifier(home, RUN, {"phone": target}, clock)
    await notifier.begin()
    await end_session(home, "quota", "error", "waiting")
    await notifier.drain()
    assert [json.loads(request.body)["kind"] for request in receiver.requests] == ["needs_you", "digest"]
    assert clock.at >= dt.datetime(2026, 2, 15, 7).astimezone().timestamp()
    assert "2 notifications" in json.loads(receiver.requests[1].body)["title"]


async def test_two_processes_never_send_the_same(home: Home, receiver: Receiver) -> None:
    targets = {"phone": NotifyTarget(webhook=receiver.url)}
    async with notifying(home, RUN, targets), notifying(home, RUN, targets):
        await end_session(home, "all_done")
    assert len(receiver.requests) == 1


async def test_what_happened_before_notifications_were_configured_is_no_news(home: Home, receiver: Receiver) -> None:
    await end_session(home, "all_done")
    targets = {"phone": NotifyTarget(webhook=receiver.url)}
    await Notifier(home, RUN, targets).drain()
    async with notifying(home, RUN, targets):
        pass
    assert receiver.requests == []


async def test_a_command_gets_the_notification_and_one_that_fails_is_tried_again(home: Home, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = f"cat >> {out}; echo >> {out}; test -e {tmp_path}/ok"
    targets = {"mail": NotifyTarget(command=("sh", "-c", script))}
    async with notifying(home, RUN, targets):
        await end_session(home, "all_done")
    (entry,) = Outbox(home.folder(RUN)).load().entries
    (tmp_path / "ok").touch()
    await Notifier(home, RUN, targets, SetClock(entry.due)).drain()
    first, again = (json.loads(line) for line in out.read_text().splitlines())
    assert first == again
    assert first["kind"] == "done"


async def test_the_desktop_gets_it_without_markup(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nfor each in "$@"; do echo "$each" >> {tmp_path}/shown; done\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    desk = {"desk": NotifyTarget(desktop=True)}
    async with notifying(home, RUN, desk), open_run(FileStore(home.path), RUN) as run:
        await run.begin_session(SessionStart(command="resume"), SessionEnd(reason="error", summary="<b>x</b> & y"))
    shown = (tmp_path / "shown").read_text().splitlines()
    assert shown[:4] == ["--app-name=Holdfast", "--urgency=critical", "--", f"{RUN} failed"]
    assert "&lt;b&gt;x&lt;/b&gt; &amp; y" in shown[4]


async def test_a_damaged_outbox_is_set_aside(home: Home, receiver: Receiver) -> None:
    Path(home.folder(RUN), "notify.json").write_text("{", encoding="ascii")
    async with notifying(home, RUN, {"phone": NotifyTarget(webhook=receiver.url)}):
        await end_session(home, "all_done")
    assert len(receiver.requests) == 1
    assert Path(home.folder(RUN), "notify.json.unreadable").read_text(encoding="ascii") == "{"


async def test_the_digest_of_all_runs_is_sent_once_a_day(
    home: Home, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[notify.phone]\nwebhook = "{receiver.url}"\ndigest = "08:00"\n', encoding="utf-8")
    monkeypatch.setenv("HOLDFAST_CONFIG", os.fspath(config))
    await end_session(home, "all_done")
    today = dt.datetime.now().astimezone().replace(hour=7, minute=59, second=0)
    for moment, sent in (
        (today, 0),
        (today.replace(hour=8), 1),
        (today.replace(hour=9), 1),
        (today.replace(hour=7), 1),  # the clock was set back
        (today + dt.timedelta(days=1, hours=1), 2),
    ):
        await send_due_digests(home, SetClock(moment.timestamp()))
        assert len(receiver.requests) == sent
    first = json.loads(receiver.requests[0].body)
    assert (first["kind"], first["run"]) == ("digest", None)
    assert RUN in first["text"]


class OddClock(SetClock):
    """Fails once, in a way that nobody foresaw."""

    is_odd = True

    def now(self) -> float:
        if self.is_odd:
            self.is_odd = False
            raise RuntimeError("the clock stands still")
        return super().now()


async def test_a_bug_is_logged_and_notifying_goes_on(
    home: Home, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    notifier = Notifier(home, RUN, {"phone": NotifyTarget(webhook=receiver.url)}, OddClock(1e9))
    sending = asyncio.create_task(notifier.run(stop, ready))
    await ready.wait()
    await end_session(home, "all_done")
    await until(lambda: len(receiver.requests) == 1)
    stop.set()
    await sending
    assert "notifications are not sent now, by a bug in Holdfast" in caplog.text


async def test_url_of_another_scheme_is_not_repeated_it_may_hold_a_token(home: Home) -> None:
    target = NotifyTarget(webhook="ftp://me:kelp@files.example/hook/kelp?key=kelp")
    async with notifying(home, RUN, {"phone": target}):
        await end_session(home, "all_done")
    problem = Outbox(home.folder(RUN)).load().last_problem
    assert problem == "phone: it is not an http or https URL (scheme ftp, host files.example)"


async def test_one_that_is_dropped_while_it_is_sent_is_no_bug(
    home: Home, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """More wait than an outbox holds, while the receiver keeps the first."""
    receiver.hangs = True
    targets = {"slow": NotifyTarget(webhook=receiver.url)}
    async with notifying(home, RUN, targets):
        await end_session(home, "all_done")
        await until(lambda: len(receiver.requests) == 1)
        await end_session(home, *["all_done"] * 200)
        await until(lambda: Outbox(home.folder(RUN)).load().given_up == 1)
        receiver.hangs = False
        receiver.released.set()
        await until(lambda: len(receiver.requests) > 1)
    ours = [record for record in caplog.records if record.name != "asyncio"]  # which tells of tasks of other tests, too
    assert ours == []
    assert Outbox(home.folder(RUN)).load().given_up == 1
