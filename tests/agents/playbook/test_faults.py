"""Death, silence and nonsense."""

import asyncio
import os
import signal
from contextlib import suppress

import pytest

from tests.agents.playbook.driver import Stagehand, is_alive
from tests.support.wait import until


@pytest.mark.parametrize(
    ("crash", "code"),
    [
        ("kill", -signal.SIGKILL),
        ("abort", -signal.SIGABRT),
        ("segfault", -signal.SIGSEGV),
        ("{how: exit, code: 7}", 7),
    ],
)
async def test_it_dies_as_told_after_all_that_it_said(stage: Stagehand, crash: str, code: int) -> None:
    agent = await stage.play(f"turns: [[say: last words, crash: {crash}]]")
    with pytest.raises(ConnectionError):
        await agent.prompt()
    assert await agent.gone() == code
    assert agent.text == "last words"


async def test_it_may_die_before_the_first_answer_and_only_the_first_time(stage: Stagehand) -> None:
    script = "start: [stderr: a banner, junk: text, crash: {how: exit, code: 9, once: boot}]\nturns: [[say: hi]]"
    agent = await stage.spawn(script)
    with suppress(ConnectionError, BrokenPipeError):
        await agent.initialize()
    assert await agent.gone() == 9
    again = await stage.play(script)
    await again.prompt()
    assert again.text == "hi"
    assert stage.stderr().count("a banner") == 2


async def test_a_hanging_agent_answers_nothing_but_lives(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[say: on my way, hang: {how: agent, once: true}]]")
    asking = agent.asking()
    await until(stage.came_to_once)
    listing = asyncio.create_task(agent.connection.list_sessions())
    await agent.cancel()
    await asyncio.wait({asking}, timeout=0.2)
    assert not asking.done()
    assert not listing.done()
    agent.process.terminate()
    assert await agent.gone() == -signal.SIGTERM
    await asyncio.gather(asking, listing, return_exceptions=True)


async def test_a_stubborn_one_ignores_cancel_sigterm_and_the_end_of_stdin(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[say: no way, hang: stubborn]]")
    asking = agent.asking()
    await agent.until(lambda agent: agent.text == "no way")
    await until(lambda: _ignores(agent.process.pid, signal.SIGTERM))
    agent.process.terminate()
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    await asyncio.wait({asking}, timeout=0.2)
    assert is_alive(agent.process.pid)
    await agent.kill()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_deaf_turn_ignores_the_cancel_and_a_hang_has_an_end(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[say: x, hang: {how: deaf, seconds: 0.5, once: true}]]")
    asking = agent.asking()
    await until(stage.came_to_once)
    await agent.cancel()
    assert await agent.gone() == 3
    with pytest.raises(ConnectionError):
        await asking
    assert "hung for 0.5 s" in stage.stderr()


async def test_junk_between_frames_does_not_end_the_conversation(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - steps:
              - junk: text
              - junk: {what: text, text: "[1, 2"}
              - junk: utf8
              - junk: unknown_id
              - junk: {what: huge, size: 3000000}
              - say: still here
    """)
    assert (await agent.prompt()).stop_reason == "end_turn"
    assert agent.text == "still here"
    assert [frame for frame in agent.frames if frame.get("id") == 987_654_321]


async def test_half_a_frame_swallows_the_next(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[junk: half, say: swallowed, say: heard]]")
    await agent.prompt()
    assert agent.text == "heard"


async def test_a_flood_arrives_whole(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[flood: 3000, flood: {updates: 2, text: b}]]")
    await agent.prompt()
    assert agent.text == "." * 3000 + "bb"


async def test_noise_on_stderr_disturbs_nobody(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[stderr: {text: noise, times: 5000}, say: hi]]")
    await agent.prompt()
    assert stage.stderr().count("noise") == 5000


async def test_the_end_of_stdin_ends_it_unless_it_ignores_that(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[say: x, sleep: 600]]")
    asking = agent.asking()
    await agent.until(lambda agent: agent.text == "x")
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert await agent.gone() == 0
    await asyncio.gather(asking, return_exceptions=True)
    staying = await stage.play("agent: {ignores: [eof, sigterm]}\nturns: [[say: x, wait_for: go, run: touch done]]")
    asking = staying.asking()
    await staying.until(lambda agent: agent.text == "x")
    assert staying.process.stdin is not None
    staying.process.stdin.close()
    staying.process.terminate()
    stage.put("go", "")
    await until(lambda: os.path.exists(stage.path("done")))
    assert is_alive(staying.process.pid)
    await staying.kill()
    await asyncio.gather(asking, return_exceptions=True)


async def test_behind_a_wrapper_the_real_agent_is_another_process_and_outlives_it(stage: Stagehand) -> None:
    agent = await stage.play("agent: {wrapper: true}\nturns: [[say: '{{pid}}'], [crash: {how: exit, code: 5}]]")
    await agent.prompt()
    real = int(agent.text)
    assert real != agent.process.pid
    agent.process.kill()
    await until(lambda: not is_alive(agent.process.pid))
    assert is_alive(real)
    with pytest.raises(ConnectionError):
        await agent.prompt()
    await until(lambda: not is_alive(real))


async def test_a_wrapper_ends_as_its_agent_ended(stage: Stagehand) -> None:
    agent = await stage.play("agent: {wrapper: true}\nturns: [[crash: kill]]")
    with pytest.raises(ConnectionError):
        await agent.prompt()
    assert await agent.gone() == 128 + signal.SIGKILL


def _ignores(pid: int, number: int) -> bool:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigIgn"))
    return bool(int(mask, 16) >> (number - 1) & 1)
