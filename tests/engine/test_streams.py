"""An agent that streams for long: every word in its order, little memory, and a log hardly longer than the text."""

from typing import Any

import pytest

from holdfast.agents.acp.recorder import MAX_BUFFER_CHARS
from holdfast.core.events.conversation import MessageRecorded
from holdfast.store.files.store import FileStore
from tests.agents.company import resident
from tests.support.conversations import AGENT, Place, say_until_killed
from tests.support.processes import child

WORD = 8  # characters of one update
MEGABYTE = 1024 * 1024

ECHO: list[dict[str, Any]] = [{"say": {"text": "{{prompt}}", "chunk": WORD}}]


def numbered(count: int) -> str:
    return "".join(f"{number:07d} " for number in range(count))


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.torture)])
async def test_a_long_stream_keeps_its_order_and_takes_little_memory_and_disk(place: Place, count: int) -> None:
    place.play({"otherwise": ECHO, "sessions": {"save": "never"}})
    text = numbered(count)
    heard, out_of_order, most = 0, 0, 0

    def hear(_: str, speaker: str, piece: str) -> None:
        nonlocal heard, out_of_order, most
        out_of_order += piece != text[heard * WORD : (heard + 1) * WORD]
        heard += 1
        if heard % 1_000 == 0:
            most = max(most, resident())

    async with place.session(hint=hear) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "warm up", place.cwd)
        heard = out_of_order = 0
        before = resident()
        assert (await conversations.send_prompt(name, text, place.cwd)).reason == "end_turn"
    assert (heard, out_of_order) == (count, 0)
    assert most - before < 8 * MEGABYTE + 4 * len(text), "what has been heard is not kept"
    assert "".join(await place.said()).removeprefix("warm up") == text
    assert await written(place) < 2 * len(text)


async def written(place: Place) -> int:
    """Bytes of the log that hold the agent's words."""
    data = b"".join([batch.data async for batch in FileStore(place.home).log(place.run_id).read()])
    return sum(len(line) for line in data.splitlines() if b'"speaker":"agent"' in line)


async def test_of_a_stream_that_the_runners_death_cuts_off_the_log_has_all_but_the_last_words(place: Place) -> None:
    place.play({"turns": [{"when": "0", "steps": [*ECHO, {"hang": "deaf"}]}], "otherwise": ECHO})
    text = numbered(MAX_BUFFER_CHARS // WORD * 2 + 100)
    with child(say_until_killed, place, [text]) as runner:
        runner.hear()
        runner.hear_some(len(text) // WORD)
        runner.kill()
    async with place.session():
        parts = [event for event in await place.events(MessageRecorded) if event.speaker == "agent"]
        kept = "".join(part.text for part in parts)
        assert text.startswith(kept)
        assert len(kept) > len(text) - MAX_BUFFER_CHARS
        assert all(part.more for part in parts)
    (reason,) = await place.interruptions()
    assert reason == "the session died; the agent had begun to answer"
