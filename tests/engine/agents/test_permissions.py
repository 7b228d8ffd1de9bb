"""Who decides for an agent that asks: rules, hooks, a person; asked by real agents, and never forgotten."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.conversation.permission import PermissionConfig, PermissionDecision, Policy, Rule
from holdfast.core.events.conversation import PermissionAnswered, PermissionRequested, ToolBlocked
from holdfast.leaf.errors import BadInput
from tests.support.conversations import AGENT, EngineSession, Place, answer_until_killed, ask_until_killed
from tests.support.processes import child
from tests.support.wait import PATIENCE, until

QUESTION = {
    "title": "Delete the notes",
    "kind": "delete",
    "options": [
        {"id": "yes", "kind": "allow_once", "name": "Yes"},
        {"id": "no", "kind": "reject_once", "name": "No"},
    ],
    "locations": ["notes.md"],
    "input": {"path": "notes.md"},
    "allowed": [{"say": "deleted"}],
    "rejected": [{"say": "kept"}],
    "cancelled": [{"say": "nobody chose"}],
}


def book(*steps: Any, **question: Any) -> dict[str, Any]:
    asks = [{"permission": {**QUESTION, **question}}]
    turns = [{"when": "crash", "steps": [*asks, {"crash": "kill"}]}]
    return {"turns": turns, "otherwise": [*steps, *asks], "sessions": {"interrupted": "next"}}


@pytest.fixture
async def place(tmp_path: os.PathLike[str]) -> Place:
    made = await Place.make(os.fspath(tmp_path))
    made.play(book())
    return made


async def request_of(session: EngineSession) -> str:
    await until(lambda: bool(session.run.state.permissions))
    (request,) = session.run.state.permissions
    return request


async def answers(place: Place) -> list[tuple[str | None, str | None]]:
    return [(event.option, event.by) for event in await place.events(PermissionAnswered)]


# Without a person


@pytest.mark.parametrize(
    ("consent", "said", "by"),
    [
        (PermissionConfig(Policy.ALLOW_ALL), "deleted", "policy allow-all"),
        (
            PermissionConfig(rules=(Rule(then=PermissionDecision.ALLOW, tool="delete", path="*.md"),)),
            "deleted",
            "rule 1",
        ),
        (
            PermissionConfig(Policy.DENY_ALL, rules=(Rule(then=PermissionDecision.ALLOW, tool="Delete *"),)),
            "deleted",
            "rule 1",
        ),
    ],
)
async def test_what_a_rule_or_the_policy_allows_is_answered_at_once(
    place: Place, consent: PermissionConfig, said: str, by: str
) -> None:
    async with place.session(consent=consent) as (_, _, conversations):
        name = await conversations.open(AGENT)
        assert (await conversations.send_prompt(name, "go", place.cwd)).reason == "end_turn"
    assert await place.said() == [said]
    assert await answers(place) == [("yes", by)]


@pytest.mark.parametrize(
    ("consent", "reason"),
    [
        (PermissionConfig(Policy.DENY_ALL), "by policy deny-all"),
        (PermissionConfig(Policy.ALLOW_ALL, rules=(Rule(then=PermissionDecision.DENY, path="notes*"),)), "by rule 1"),
    ],
)
async def test_what_is_denied_is_refused_and_the_log_says_by_what(
    place: Place, consent: PermissionConfig, reason: str
) -> None:
    async with place.session(consent=consent) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "go", place.cwd)
    assert await place.said() == ["kept"]
    assert [(event.tool, event.reason) for event in await place.events(ToolBlocked)] == [("Delete the notes", reason)]


async def test_a_path_outside_the_worktree_does_not_match_a_rule_for_inside(place: Place) -> None:
    place.play(book(locations=["../notes.md"]))
    consent = PermissionConfig(Policy.DENY_ALL, rules=(Rule(then=PermissionDecision.ALLOW, path="notes.md"),))
    async with place.session(consent=consent) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "go", place.cwd)
    assert await place.said() == ["kept"]


# Hooks


def hook(place: Place, script: str) -> tuple[str, ...]:
    path = Path(place.home) / "hook"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return (str(path),)


async def test_a_hook_that_agrees_leaves_the_decision_to_the_policy(place: Place) -> None:
    """It is told in JSON what the agent wants."""
    consent = PermissionConfig(Policy.ALLOW_ALL, hooks=(hook(place, "cat > told.json"),))
    async with place.session(consent=consent) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "go", place.cwd)
    assert await place.said() == ["deleted"]
    assert '"tool":"Delete the notes"' in (Path(place.cwd) / "told.json").read_text()


@pytest.mark.parametrize(
    ("script", "timeout_s", "reason"),
    [
        ("echo not on a; echo Friday >&2; exit 1", PATIENCE, "not on a Friday"),
        ("exit 1", PATIENCE, "hook refused"),
        ("kill -9 $$", PATIENCE, "hook refused"),
        ("sleep 600 & sleep 600", 0.5, "hook did not answer within 0.5 s"),
    ],
)
async def test_a_hook_that_refuses_or_hangs_blocks_the_call(
    place: Place, script: str, timeout_s: float, reason: str
) -> None:
    consent = PermissionConfig(Policy.ALLOW_ALL, hooks=(hook(place, script),), hook_timeout_s=timeout_s)
    async with place.session(consent=consent) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "go", place.cwd)
    assert await place.said() == ["kept"]
    (blocked,) = await place.events(ToolBlocked)
    assert (blocked.reason or "").endswith(reason)


async def test_a_hook_that_is_missing_blocks_the_call(place: Place) -> None:
    consent = PermissionConfig(Policy.ALLOW_ALL, hooks=(("/no/such/hook",),))
    async with place.session(consent=consent) as (_, _, conversations):
        name = await conversations.open(AGENT)
        await conversations.send_prompt(name, "go", place.cwd)
    assert await place.said() == ["kept"]
    (blocked,) = await place.events(ToolBlocked)
    assert blocked.reason == "the hook /no/such/hook cannot be run: No such file or directory"


# A person


@pytest.mark.parametrize(("option", "said"), [("yes", "deleted"), ("no", "kept"), (None, "nobody chose")])
async def test_a_person_answers_while_the_agent_waits(place: Place, option: str | None, said: str) -> None:
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        request = await request_of(session)
        await session.broker.answer(request, option, by="Ada")
        await turn
        assert session.run.state.permissions == {}
    assert await place.said() == [said]
    assert await answers(place) == [(option, "Ada")]
    (asked,) = await place.events(PermissionRequested)
    assert (asked.title, asked.kind) == ("Delete the notes", "delete")


async def test_a_question_of_a_cancelled_turn_is_withdrawn(place: Place) -> None:
    """The protocol wants it so, and an agent that waits for a person would not hear of the cancel otherwise."""
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        await request_of(session)
        await session.conversations.cancel(name)
        assert (await turn).reason == "cancelled"
        assert session.run.state.permissions == {}
        assert session.conversations.resume_need(name) == (False, "agent_running")
    assert await answers(place) == [(None, "the turn was cancelled")]


async def test_an_unknown_request_or_option_is_one_clear_line_and_the_question_stays(place: Place) -> None:
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        request = await request_of(session)
        with pytest.raises(BadInput, match="there is no open request 'nope'"):
            await session.broker.answer("nope", "yes", by="Ada")
        with pytest.raises(BadInput, match="'maybe' is not one of the answers; they are yes, no"):
            await session.broker.answer(request, "maybe", by="Ada")
        await session.broker.answer(request, "yes", by="Ada")
        with pytest.raises(BadInput, match="it was answered already"):
            await session.broker.answer(request, "no", by="Bob")
        await turn
    assert await answers(place) == [("yes", "Ada")]


async def test_a_question_is_answered_as_soon_as_it_can_be_seen(place: Place) -> None:
    """However fast the answer comes, the agent gets it."""
    async with place.session() as session:
        name = await session.conversations.open(AGENT)

        async def answer() -> None:
            await session.broker.answer(await request_of(session), "yes", by="a program")

        for _ in range(3):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(session.conversations.send_prompt(name, "go", place.cwd), answer())
    assert await place.said() == ["deleted"] * 3


async def test_an_answer_given_while_the_runner_and_the_agent_are_dead_is_used_when_it_asks_again(place: Place) -> None:
    with child(ask_until_killed, place, "go") as runner:
        name, request = runner.hear_some(2)
        runner.kill()
    async with place.session() as session:
        assert list(session.run.state.permissions) == [request], "the question outlives whoever asked it"
        await session.broker.answer(request, "yes", by="Ada")
    async with place.session() as session:
        assert (await session.conversations.send_prompt(name, "go", place.cwd)).reason == "end_turn"
        assert session.conversations.state(name).granted == {}, "once"
    assert await place.said() == ["deleted"]
    assert await answers(place) == [("yes", "Ada"), ("yes", "the earlier answer")]


async def test_an_earlier_answer_is_not_used_for_another_question(place: Place) -> None:
    with child(ask_until_killed, place, "go") as runner:
        name, request = runner.hear_some(2)
        runner.kill()
    place.play(book(title="Delete everything"))
    async with place.session() as session:
        await session.broker.answer(request, "yes", by="Ada")
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        await session.broker.answer(await request_of(session), "no", by="Ada")
        await turn
    assert await place.said() == ["kept"]


async def test_an_earlier_answer_that_is_not_offered_any_more_is_asked_for_again(place: Place) -> None:
    with child(ask_until_killed, place, "go") as runner:
        name, request = runner.hear_some(2)
        runner.kill()
    place.play(book(options=[{"id": "sure", "kind": "allow_once", "name": "Sure"}]))
    async with place.session() as session:
        await session.broker.answer(request, "yes", by="Ada")
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        await session.broker.answer(await request_of(session), "sure", by="Ada")
        await turn
    assert await place.said() == ["deleted"]


async def test_an_agent_that_dies_while_it_waits_for_a_person_leaves_its_question_open(place: Place) -> None:
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        request = await request_of(session)
        pid = session.conversations.state(name).pid
        assert pid is not None
        os.kill(pid, 9)
        assert (await turn).reason == "interrupted"
        await session.broker.answer(request, "yes", by="Ada")
        assert (await session.conversations.send_prompt(name, "go", place.cwd)).reason == "end_turn"
    assert await place.said() == ["deleted"]


@pytest.mark.parametrize(("option", "said"), [("yes", "deleted"), ("no", "kept")])
async def test_an_answer_that_did_not_reach_the_agent_before_all_were_killed_is_used_once(
    place: Place, option: str, said: str
) -> None:
    with child(answer_until_killed, place, "go", option) as runner:
        name = runner.hear()
        assert name is not None
        runner.kill()
    async with place.session() as session:
        assert session.run.state.permissions == {}
        assert (await session.conversations.send_prompt(name, "go", place.cwd)).reason == "end_turn"
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        await session.broker.answer(await request_of(session), "no", by="Bob")
        await turn
    assert await place.said() == [said, "kept"]
    assert await answers(place) == [(option, "Ada"), (option, "the earlier answer"), ("no", "Bob")]


async def test_an_answer_that_was_used_before_the_agent_died_is_asked_for_again(place: Place) -> None:
    done = [{"tool": {"id": "t-1", "title": "Delete"}}, {"tool_done": {"id": "t-1"}}, {"crash": "kill"}]
    place.play({**book(), "turns": [{"when": "crash", "steps": [{"permission": {**QUESTION, "allowed": done}}]}]})
    async with place.session() as session:
        name = await session.conversations.open(AGENT)
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "crash", place.cwd))
        await session.broker.answer(await request_of(session), "yes", by="Ada")
        assert (await turn).reason == "interrupted"
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        await session.broker.answer(await request_of(session), "no", by="Ada")
        await turn
    assert await place.said() == ["kept"]
    assert await answers(place) == [("yes", "Ada"), ("no", "Ada")]


async def test_a_question_asked_again_by_an_agent_that_is_back_is_still_one_question(place: Place) -> None:
    with child(ask_until_killed, place, "go") as runner:
        name, request = runner.hear_some(2)
        runner.kill()
    async with place.session() as session:
        turn = asyncio.ensure_future(session.conversations.send_prompt(name, "go", place.cwd))
        earlier = session.run.state.permissions[request].turn
        await until(lambda: session.run.state.permissions[request].turn != earlier)
        await session.broker.answer(request, "yes", by="Ada")
        assert (await turn).reason == "end_turn"
        assert session.run.state.permissions == {}
    assert await place.said() == ["deleted"]
    assert await answers(place) == [("yes", "Ada")]


async def test_a_rule_that_came_since_is_stronger_than_an_earlier_answer(place: Place) -> None:
    with child(answer_until_killed, place, "go", "no") as runner:
        name = runner.hear()
        assert name is not None
        runner.kill()
    async with place.session(consent=PermissionConfig(Policy.ALLOW_ALL)) as (_, _, conversations):
        await conversations.send_prompt(name, "go", place.cwd)
    assert await answers(place) == [("no", "Ada"), ("yes", "policy allow-all")]


async def test_a_question_that_is_not_asked_again_is_withdrawn_when_a_turn_ends(place: Place) -> None:
    with child(ask_until_killed, place, "go") as runner:
        name, request = runner.hear_some(2)
        runner.kill()
    place.play({"otherwise": [{"say": "something else"}]})
    async with place.session() as session:
        assert list(session.run.state.permissions) == [request]
        await session.conversations.send_prompt(name, "go", place.cwd)
        assert session.run.state.permissions == {}
    assert await answers(place) == [(None, "the turn ended without an answer")]
