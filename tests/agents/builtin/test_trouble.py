"""What goes wrong with a model, and what the user is told."""

import datetime as dt
import time
from typing import Any

import pytest
from acp import RequestError

from tests.agents.builtin.driving import KEY, VARIABLES, Bench
from tests.support.model_server.script import Answer, Fault, Rule, Script, ToolUse, Usage, in_turn
from tests.support.model_server.server import ModelServer

_FINE = Answer(text="fine now")


def _data(error: RequestError) -> dict[str, Any]:
    assert isinstance(error.data, dict)
    return error.data


@pytest.mark.parametrize("provider", VARIABLES)
async def test_passing_trouble_is_waited_out(bench: Bench, model: ModelServer, provider: str) -> None:
    broken = Answer(text="x" * 100, broken=True, after=3)
    model.play(
        in_turn(
            Answer(fault=Fault("rate_limit", retry_after=0.05)),
            Answer(fault=Fault("overloaded")),
            Answer(fault=Fault("server_error")),
            broken,
            _FINE,
        )
    )
    async with bench.agent(model, provider) as agent:
        session = await agent.start()
        assert (await agent.say(session, "hi")).stop_reason == "end_turn"
        assert agent.watcher.text.endswith("fine now")
    assert len(model.requests) == 5


@pytest.mark.parametrize("provider", VARIABLES)
async def test_a_long_rate_limit_ends_the_turn_with_its_reset_time(
    bench: Bench, model: ModelServer, provider: str
) -> None:
    at = time.time() + 7200
    model.play(Script([Rule(Answer(fault=Fault("rate_limit", resets_at=at)), times=1)], otherwise=_FINE))
    async with bench.agent(model, provider) as agent:
        session = await agent.start()
        with pytest.raises(RequestError) as caught:
            await agent.say(session, "remember the milk")
        assert _data(caught.value)["kind"] == "rate_limit"
        told = dt.datetime.fromisoformat(_data(caught.value)["resetsAt"]).timestamp()
        assert abs(told - at) < 5
        await agent.say(session, "go on")
    assert "remember the milk" in model.requests[-1].all_text


@pytest.mark.parametrize("provider", VARIABLES)
async def test_a_conversation_that_is_too_long_is_compacted(bench: Bench, model: ModelServer, provider: str) -> None:
    script = Script(
        [
            Rule(Answer(text="SUMMARY: the user likes blue"), system="Summarise this conversation"),
            Rule(Answer(fault=Fault("context_length")), user="question 6", times=1),
        ],
        otherwise=Answer(text="an answer"),
    )
    model.play(script)
    async with bench.agent(model, provider) as agent:
        session = await agent.start()
        for number in range(1, 7):
            await agent.say(session, f"question {number}")
        assert "replaced by a summary" in agent.watcher.thoughts
        agent.kill()
    last = model.requests[-1]
    assert "SUMMARY: the user likes blue" in last.all_text
    assert "question 6" in last.all_text
    assert "question 1" not in last.all_text
    async with bench.agent(model, provider) as agent:
        await agent.come_back(session, "load")
        assert len(agent.watcher.of("user_message_chunk")) == 6
        await agent.say(session, "again")
    assert "SUMMARY: the user likes blue" in model.requests[-1].all_text
    assert "question 1" not in model.requests[-1].all_text


async def test_a_nearly_full_context_is_compacted_before_it_is_refused(bench: Bench, model: ModelServer) -> None:
    script = Script(
        [Rule(Answer(text="SHORT"), system="Summarise this conversation")],
        otherwise=Answer(text="an answer", usage=Usage(input=900)),
    )
    model.play(script)
    async with bench.agent(model, "openai", "--context-window", "1000") as agent:
        session = await agent.start()
        for number in range(1, 7):
            await agent.say(session, f"question {number}")
    assert "SHORT" in model.requests[-1].all_text


@pytest.mark.parametrize("provider", VARIABLES)
async def test_a_refused_key_is_said_and_not_shown(bench: Bench, model: ModelServer, provider: str) -> None:
    model.play(in_turn(Answer(fault=Fault("auth", message=f"API key not valid: {KEY}"))))
    async with bench.agent(model, provider) as agent:
        session = await agent.start()
        with pytest.raises(RequestError, match="does not accept the API key") as caught:
            await agent.say(session, "hi")
    assert caught.value.code == -32000
    assert KEY not in str(caught.value)


async def test_other_refusals_are_readable(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(fault=Fault("quota")), Answer(fault=Fault("rejected", message="tools: too many"))))
    async with bench.agent(model) as agent:
        session = await agent.start()
        with pytest.raises(RequestError, match="quota") as caught:
            await agent.say(session, "hi")
        assert _data(caught.value)["kind"] == "quota"
        with pytest.raises(RequestError, match="rejected the request: tools: too many"):
            await agent.say(session, "hi")


async def test_a_model_that_hangs_is_given_up(bench: Bench, model: ModelServer) -> None:
    model.play(Script(otherwise=Answer(hang=True)))
    async with bench.agent(model, "openai", "--timeout", "2", "--retries", "1") as agent:
        session = await agent.start()
        with pytest.raises(RequestError, match="could not answer"):
            await agent.say(session, "hi")
    await model.asked(2)  # the server may hear of one after its time was up
    assert len(model.requests) == 2


async def test_a_dead_endpoint_is_readable(bench: Bench, model: ModelServer) -> None:
    async with bench.agent(model, "openai", "--base-url", "http://127.0.0.1:9/v1", "--retries", "0") as agent:
        session = await agent.start()
        with pytest.raises(RequestError, match="could not answer"):
            await agent.say(session, "hi")


@pytest.mark.parametrize("provider", VARIABLES)
async def test_a_refusal_ends_the_turn_and_leaves_the_conversation(
    bench: Bench, model: ModelServer, provider: str
) -> None:
    model.play(Script([Rule(Answer(text="No.", stop="refusal"), times=1)], otherwise=_FINE))
    async with bench.agent(model, provider) as agent:
        session = await agent.start()
        answer = await agent.say(session, "something bad")
        assert answer.stop_reason == "refusal"
        await agent.say(session, "something good")
    assert "something bad" not in model.requests[-1].all_text


async def test_an_answer_cut_off_by_length_says_so(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(text="so lo", stop="length")))
    async with bench.agent(model) as agent:
        assert (await agent.say(await agent.start(), "hi")).stop_reason == "max_tokens"


async def test_steps_in_a_turn_are_bounded(bench: Bench, model: ModelServer) -> None:
    model.play(Script(otherwise=Answer(tools=[ToolUse("glob", {"pattern": "*"})])))
    async with bench.agent(model, "openai", "--max-steps", "3") as agent:
        assert (await agent.say(await agent.start(), "hi")).stop_reason == "max_turn_requests"
    assert len(model.requests) == 3
