"""Text of agents reaches listeners before it is in the log, costs the runner nothing, and never holds a secret."""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from holdfast.core.conversation.live_text import Hint, LiveText
from holdfast.core.events import Event
from holdfast.core.events.conversation import TurnStarted
from holdfast.engine.home import Home
from holdfast.engine.live_socket import connect, listen
from holdfast.engine.queries.live.follow import Follower
from holdfast.engine.queries.live.live_text import events_in, live_text
from holdfast.store.files.layout import run_folder
from tests.support.conversations import AGENT, Place, stream_until_killed
from tests.support.processes import child
from tests.support.wait import PATIENCE, until

SECRET = "ghp_" + "a1B2" * 9


class Listener:
    """Receives the hints of a run, and what the log has."""

    def __init__(self, place: Place) -> None:
        self.hints: list[Hint] = []
        self._place = place
        self._received = asyncio.Event()

    @property
    def text(self) -> str:
        return "".join(hint.text for hint in self.hints)

    async def listen(self) -> None:
        async for hint in live_text(Home(self._place.home), self._place.run_id):
            self.hints.append(hint)
            self._received.set()

    async def until_text(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.text.endswith(text):
                await self._received.wait()
                self._received.clear()


@asynccontextmanager
async def listening(place: Place) -> AsyncIterator[Listener]:
    listener = Listener(place)
    task = asyncio.create_task(listener.listen())
    try:
        yield listener
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def steps_of(place: Place, *texts: str) -> Mapping[str, Any]:
    """Before each of these texts, the agent waits for a file with its number."""
    steps = [[{"wait_for": {"path": gate(place, at), "timeout": 3600}}, {"say": text}] for at, text in enumerate(texts)]
    return {"otherwise": [step for pair in steps for step in pair] + [{"wait_for": {"path": gate(place, len(texts))}}]}


def gate(place: Place, number: int) -> str:
    return os.path.join(place.cwd, f"gate-{number}")


def let_through(place: Place, *numbers: int) -> None:
    for number in numbers:
        with open(gate(place, number), "x", encoding="utf-8"):
            pass


def sockets(place: Place) -> list[str]:
    folder = os.path.join(place.home, "runtime", "holdfast")
    return [os.path.join(folder, name) for name in os.listdir(folder)]


@pytest.fixture(autouse=True)
def _runtime_folder(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    runtime = os.path.join(place.home, "runtime")
    os.mkdir(runtime)
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)


async def test_text_is_received_before_it_is_in_the_log(place: Place) -> None:
    place.play(steps_of(place, "Hello, ", "wide ", "world. "))
    async with (
        listening(place) as listener,
        place.session(offers_text=True, text_delay_s=PATIENCE) as (_, _, conversations),
    ):
        turn = asyncio.create_task(conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd))
        for number, text in enumerate(("Hello, ", "wide ", "world. ")):
            let_through(place, number)
            await listener.until_text(text)
            assert await place.said() == []
        let_through(place, 3)
        await turn
    assert await place.said() == ["Hello, wide world. "]
    assert [(hint.offset, hint.text) for hint in listener.hints] == [(0, "Hello, "), (7, "wide "), (12, "world. ")]
    assert {hint.speaker for hint in listener.hints} == {"agent"}
    (turn_started,) = await place.events(TurnStarted)
    assert {hint.turn for hint in listener.hints} == {turn_started.turn}


async def test_client_that_comes_later_gets_what_the_log_does_not_have(place: Place) -> None:
    """Its view of the turn is complete: what the log has, then the first hint."""
    steps = steps_of(place, "One. ", "Three. ")["otherwise"]
    steps[2:2] = [{"tool": {"id": "t", "title": "Look"}}, {"tool_done": {"id": "t"}}, {"say": "Two. "}]
    place.play({"otherwise": steps})
    async with place.session(offers_text=True, text_delay_s=PATIENCE) as (run, _, conversations):
        async with listening(place) as first:
            turn = asyncio.create_task(conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd))
            let_through(place, 0)
            await first.until_text("Two. ")
        follower = await Follower.create(Home(place.home), place.run_id)
        view = await follower.open_text()
        async with listening(place) as second:
            await second.until_text("Two. ")
            let_through(place, 1)
            await second.until_text("Three. ")
        assert second.hints[0].offset == len("One. ")
        for hint in second.hints:
            view.add(hint)
        (shown,) = view.open_texts().values()
        assert shown.text == "Two. Three. "
        assert run.state.conversations
        let_through(place, 2)
        await turn


async def test_secret_in_pieces_is_never_sent(place: Place) -> None:
    """The beginning of what may be a secret is held back; its marker is what the log has."""
    pieces = ("The token is ", SECRET[:6], SECRET[6:20], SECRET[20:], " and more. ")
    place.play(steps_of(place, *pieces))
    async with (
        listening(place) as listener,
        place.session(offers_text=True, text_delay_s=PATIENCE) as (_, _, conversations),
    ):
        turn = asyncio.create_task(conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd))
        for number in range(len(pieces)):
            let_through(place, number)
        await listener.until_text("more. ")
        assert listener.text == "The token is [redacted: GitHub token] and more. "
        let_through(place, len(pieces))
        await turn
    assert "".join(await place.said()) == listener.text


async def test_offsets_count_what_the_log_has_with_secrets_removed(place: Place) -> None:
    steps = steps_of(place, f"It is {SECRET} here. ", "Then more. ")["otherwise"]
    steps[2:2] = [{"tool": {"id": "t", "title": "Look"}}, {"tool_done": {"id": "t"}}]
    place.play({"otherwise": steps})
    async with (
        listening(place) as listener,
        place.session(offers_text=True, text_delay_s=PATIENCE) as (_, _, conversations),
    ):
        turn = asyncio.create_task(conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd))
        let_through(place, 0, 1)
        await listener.until_text("more. ")
        let_through(place, 2)
        await turn
    recorded = await place.said()
    assert listener.hints[-1].offset == len(recorded[0])


@pytest.mark.parametrize("kills", [1, 2])
async def test_client_survives_the_death_of_the_runner(place: Place, kills: int) -> None:
    """It connects to the next runner, which takes the place of the dead one's socket."""
    place.play(steps_of(place, "Hello. ", "Never said. "))
    let_through(place, 0)
    async with listening(place) as listener:
        for number in range(1, kills + 1):
            with child(stream_until_killed, place, "go") as runner:
                await until(lambda number=number: listener.text == "Hello. " * number)  # type: ignore[misc]
                runner.kill()
            assert len(sockets(place)) == 1
        async with place.session(offers_text=True, text_delay_s=PATIENCE) as (_, _, conversations):
            turn = asyncio.create_task(conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd))
            await listener.until_text("Hello. " * (kills + 1))
            let_through(place, 1, 2)
            await turn
    assert len({hint.turn for hint in listener.hints}) == kills + 1
    assert sockets(place) == []


async def test_listeners_that_never_read_do_not_hold_up_the_runner(place: Place) -> None:
    """Each gets what fits into its buffer. One that reads again gets all that the log does not have."""
    text = "".join(f"{number:07d} " for number in range(50_000))
    place.play({"otherwise": [{"say": {"text": text, "chunk": 400}}, *steps_of(place, "The end. ")["otherwise"]]})
    async with place.session(offers_text=True, text_delay_s=PATIENCE) as (_, _, conversations):
        folder = run_folder(place.home, place.run_id)
        deaf = [connect(folder) for _ in range(10)]
        assert all(deaf)
        turn = asyncio.create_task(conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd))
        async with listening(place) as listener:
            let_through(place, 0)
            await listener.until_text("The end. ")
        view = LiveText(await _events(place))
        for hint in await _read_all(deaf[0], "The end. "):
            view.add(hint)
        (shown,) = view.open_texts().values()
        assert (text + "The end. ").endswith(shown.text)
        assert shown.text.endswith("The end. ")
        let_through(place, 1)
        await turn
        for connection in deaf:
            assert connection is not None
            connection.close()
    assert "".join(await place.said()) == text + "The end. "


async def _events(place: Place) -> list[Event]:
    follower = await Follower.create(Home(place.home), place.run_id, after=0)
    return [event async for update in follower.pending_updates() for event in events_in(update.lines)]


async def _read_all(connection: socket.socket | None, last: str) -> list[Hint]:
    assert connection is not None
    data, hints = b"", list[Hint]()
    async with asyncio.timeout(PATIENCE):
        while not hints or not hints[-1].text.endswith(last):
            data += await asyncio.get_running_loop().sock_recv(connection, 65536)
            *lines, data = data.split(b"\n")
            hints += [msgspec.json.decode(line, type=Hint) for line in lines]
    return hints


async def test_only_the_user_can_connect(place: Place) -> None:
    async with place.session(offers_text=True):
        (path,) = sockets(place)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


async def test_client_stops_when_the_run_is_deleted_or_unknown(place: Place) -> None:
    assert [hint async for hint in live_text(Home(place.home), "other-aaaaaa")] == []


def test_deep_folder_is_no_obstacle(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel limits the path of a socket to 108 bytes."""
    runtime = os.path.join(tmp_path, "deep" * 30, "deeper" * 20)
    os.makedirs(runtime)
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    bound = listen("/a/run")
    connection = connect("/a/run")
    assert bound is not None
    assert connection is not None
    assert connect("/another/run") is None
    assert len(os.listdir(os.path.join(runtime, "holdfast"))) == 1
    connection.close()
    bound.close()
    assert os.listdir(os.path.join(runtime, "holdfast")) == []


def test_folder_that_others_can_enter_is_not_used(place: Place) -> None:
    runtime = os.path.join(place.home, "runtime", "holdfast")
    os.mkdir(runtime)
    os.chmod(runtime, 0o755)
    run = run_folder(place.home, place.run_id)
    bound = listen(run)
    assert bound is not None
    assert sockets(place) == []
    assert bound.place.folder == f"/tmp/holdfast-{os.geteuid()}"
    connection = connect(run)
    assert connection is not None
    connection.close()
    bound.close()
    assert connect(run) is None


def test_sockets_of_dead_runners_are_deleted_after_a_while(place: Place) -> None:
    old, new, alive = (listen(f"/runs/{name}") for name in ("old", "new", "alive"))
    assert old is not None
    assert new is not None
    assert alive is not None
    for dead in (old, new):
        dead.socket.close()
    for bound in (old, alive):
        os.utime(os.path.join(bound.place.folder, bound.place.name), (0, 0))
    other = listen("/runs/other")
    assert other is not None
    assert {os.path.basename(path) for path in sockets(place)} == {b.place.name for b in (new, alive, other)}
    alive.close()
    other.close()


async def test_session_without_a_socket_runs_as_ever(place: Place) -> None:
    """Here a folder is where the socket would be, in both places."""
    run = run_folder(place.home, place.run_id)
    in_the_way = []
    for _ in range(2):
        bound = listen(run)
        assert bound is not None
        bound.close()
        in_the_way.append(os.path.join(bound.place.folder, bound.place.name))
        os.mkdir(in_the_way[-1])
    place.play({"otherwise": [{"say": "fine"}]})
    async with place.session(offers_text=True) as (_, _, conversations):
        assert (await conversations.send_prompt(await conversations.open(AGENT), "go", place.cwd)).reason == "end_turn"
    assert await place.said() == ["fine"]
    for path in in_the_way:
        os.rmdir(path)
