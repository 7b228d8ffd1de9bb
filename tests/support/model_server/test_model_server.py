"""The scripted model speaks the vendors' formats well enough for the vendors' own clients."""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import errors as google_errors

from tests.support.model_server.script import Answer, Fault, Rule, Script, ToolUse, Usage, in_turn
from tests.support.model_server.server import ModelServer

_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


class Got(NamedTuple):
    text: str
    calls: list[tuple[str, Any]]
    tokens: tuple[int, int]


def _openai(server: ModelServer) -> openai.AsyncOpenAI:
    plain = openai.DefaultAsyncHttpxClient(verify=False)  # no time spent on certificates
    return openai.AsyncOpenAI(base_url=server.base_url("openai"), api_key="k", max_retries=0, http_client=plain)


async def _openai_chat(server: ModelServer, prompt: str, *, stream: bool) -> Got:
    tool: Any = {"type": "function", "function": {"name": "read", "parameters": _SCHEMA}}
    said: Any = [{"role": "system", "content": "be good"}, {"role": "user", "content": prompt}]
    async with _openai(server) as client:
        if not stream:
            whole = await client.chat.completions.create(model="m", messages=said, tools=[tool])
        else:
            async with client.chat.completions.stream(
                model="m", messages=said, tools=[tool], stream_options={"include_usage": True}
            ) as events:
                whole = await events.get_final_completion()
    message = whole.choices[0].message
    calls = [
        (c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or [] if c.type == "function"
    ]
    assert whole.usage is not None
    return Got(message.content or "", calls, (whole.usage.prompt_tokens, whole.usage.completion_tokens))


async def _openai_responses(server: ModelServer, prompt: str, *, stream: bool) -> Got:
    tool: Any = {"type": "function", "name": "read", "parameters": _SCHEMA, "strict": False}
    async with _openai(server) as client:
        if not stream:
            whole: Any = await client.responses.create(model="m", instructions="be good", input=prompt, tools=[tool])
        else:
            async with client.responses.stream(model="m", instructions="be good", input=prompt, tools=[tool]) as events:
                whole = await events.get_final_response()
    calls = [(item.name, json.loads(item.arguments)) for item in whole.output if item.type == "function_call"]
    return Got(whole.output_text, calls, (whole.usage.input_tokens, whole.usage.output_tokens))


async def _anthropic(server: ModelServer, prompt: str, *, stream: bool) -> Got:
    call: Any = {
        "model": "m",
        "max_tokens": 100,
        "system": "be good",
        "messages": [{"role": "user", "content": prompt}],
        "tools": [{"name": "read", "input_schema": _SCHEMA}],
    }
    plain = anthropic.DefaultAsyncHttpxClient(verify=False)
    url = server.base_url("anthropic")
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0, http_client=plain) as client:
        if not stream:
            whole = await client.messages.create(**call)
        else:
            async with client.messages.stream(**call) as events:
                whole = await events.get_final_message()
    text = "".join(block.text for block in whole.content if block.type == "text")
    calls = [(block.name, block.input) for block in whole.content if block.type == "tool_use"]
    return Got(text, calls, (whole.usage.input_tokens, whole.usage.output_tokens))


@asynccontextmanager
async def _google_client(server: ModelServer) -> AsyncIterator[Any]:
    client = genai.Client(api_key="k", http_options={"base_url": server.base_url("google")})
    try:
        yield client.aio
    finally:
        await client.aio.aclose()
        client.close()


async def _google(server: ModelServer, prompt: str, *, stream: bool) -> Got:
    declared = {"function_declarations": [{"name": "read", "parameters_json_schema": _SCHEMA}]}
    automatic = {"disable": True}
    config: Any = {"system_instruction": "be good", "tools": [declared], "automatic_function_calling": automatic}
    text, calls, tokens = "", [], (0, 0)
    async with _google_client(server) as client:
        if not stream:
            chunks = [await client.models.generate_content(model="m", contents=prompt, config=config)]
        else:
            answer = await client.models.generate_content_stream(model="m", contents=prompt, config=config)
            chunks = [chunk async for chunk in answer]
    for chunk in chunks:
        for part in chunk.candidates[0].content.parts or []:
            text += part.text or ""
            calls += [(part.function_call.name, part.function_call.args)] if part.function_call else []
        tokens = (chunk.usage_metadata.prompt_token_count, chunk.usage_metadata.candidates_token_count)
    return Got(text, calls, tokens)


Ask = Callable[..., Awaitable[Got]]
VENDORS: dict[str, Ask] = {
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _google,
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("vendor", VENDORS)
async def test_text_tools_and_usage_arrive_in_every_format(server: ModelServer, vendor: str, stream: bool) -> None:
    answer = Answer(text="Reading it – now.", tools=[ToolUse("read", {"path": "a.txt"})], usage=Usage(123, 45), piece=4)
    server.play(in_turn(answer))
    got = await VENDORS[vendor](server, "please read", stream=stream)
    (seen,) = server.requests
    assert got == Got("Reading it – now.", [("read", {"path": "a.txt"})], (123, 45))
    assert (seen.vendor, seen.system, seen.users, seen.tools) == (vendor, "be good", ["please read"], ["read"])
    assert seen.streamed is stream


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_fault_has_the_vendors_status(server: ModelServer, vendor: str) -> None:
    overloaded = {"anthropic": 529}.get(vendor, 503)
    faults: dict[Fault, int] = {
        Fault("rate_limit", retry_after=2): 429,
        Fault("server_error"): 500,
        Fault("overloaded"): overloaded,
        Fault("context_length"): 400,
    }
    server.play(in_turn(*(Answer(fault=fault) for fault in faults)))
    for stream, (fault, status) in zip((True, False, True, False), faults.items(), strict=True):
        with pytest.raises((openai.APIStatusError, anthropic.APIStatusError, google_errors.APIError)) as caught:
            await VENDORS[vendor](server, "hello", stream=stream)
        error: Any = caught.value
        assert (error.code if vendor == "gemini" else error.status_code) == status
        if fault.retry_after and vendor != "gemini":
            assert error.response.headers["retry-after"] == "2"


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_broken_stream_breaks_in_the_middle(server: ModelServer, vendor: str) -> None:
    server.play(in_turn(Answer(text="x" * 100, broken=True, after=3)))
    with pytest.raises(Exception, match=r"(?i)connection|incomplete|peer|closed"):
        await VENDORS[vendor](server, "hello", stream=True)
    assert len(server.requests) == 1


async def test_rules_choose_by_what_was_said_offered_and_called(server: ModelServer) -> None:
    script = Script(
        [
            Rule(Answer(text="first only"), call=1),
            Rule(Answer(text="weather"), user="sun|rain", times=1),
            Rule(Answer(text="can read"), offered=["read"], user="able"),
        ],
        otherwise=Answer(text="else"),
    )
    server.play(script)
    prompts = ("sun", "rain", "rain again", "are you able?")
    said = [(await _openai_chat(server, prompt, stream=False)).text for prompt in prompts]
    assert said == ["first only", "weather", "else", "can read"]


async def test_a_side_call_is_told_apart_and_uses_up_no_rule(server: ModelServer) -> None:
    server.play(in_turn(Answer(text="the work")))
    async with _openai(server) as client:
        prompt: Any = [{"role": "user", "content": "Generate a short title for this conversation"}]
        title = await client.chat.completions.create(model="m", messages=prompt)
    assert title.choices[0].message.content == "A scripted title"
    assert (await _openai_chat(server, "do it", stream=False)).text == "the work"
    assert (len(server.requests), len(server.side_calls)) == (1, 1)


async def test_a_call_the_script_does_not_know_is_an_error_and_remembered(server: ModelServer) -> None:
    server.play(Script())
    with pytest.raises(openai.BadRequestError):
        await _openai_chat(server, "what?", stream=False)
    assert [seen.last_user for seen in server.unexpected] == ["what?"]


async def test_it_can_be_driven_over_http(server: ModelServer) -> None:
    async with httpx.AsyncClient(base_url=server.address, verify=False) as control:
        script = {"rules": [{"answer": {"text": "held", "gate": "door", "after": 1}}]}
        assert (await control.post("/_control/script", json=script)).status_code == 200
        assert (await control.post("/_control/open", json="door")).status_code == 200
        assert (await _anthropic(server, "hi", stream=True)).text == "held"
        recorded = (await control.get("/_control/requests")).json()
        assert recorded["requests"][0]["messages"][0]["text"] == "hi"


async def test_reset_times_are_in_the_vendors_headers(server: ModelServer) -> None:
    at = time.time() + 3600
    server.play(Script(otherwise=Answer(fault=Fault("rate_limit", resets_at=at))))
    with pytest.raises(openai.RateLimitError) as one:
        await _openai_chat(server, "hi", stream=False)
    with pytest.raises(anthropic.RateLimitError) as two:
        await _anthropic(server, "hi", stream=False)
    assert one.value.response.headers["x-ratelimit-reset-requests"].startswith(("59m", "1h0m"))
    assert two.value.response.headers["anthropic-ratelimit-unified-reset"] == f"{at:.0f}"


async def test_it_recalls_what_is_in_the_conversation_and_nothing_else(server: ModelServer) -> None:
    server.play(Script([Rule(Answer(recall="kelp-[0-9]"))]))
    assert (await _openai_chat(server, "kelp-2, kelp-1 and kelp-2", stream=True)).text == "kelp-2 kelp-1"
    assert (await _openai_chat(server, "say something", stream=True)).text == "nothing"
    assert [seen.last_user for seen in server.requests] == ["kelp-2, kelp-1 and kelp-2", "say something"]


async def test_side_calls_are_told_apart_though_tools_are_on_offer_and_reminders_are_not_the_users(
    server: ModelServer,
) -> None:
    server.play(Script([Rule(Answer(text="hello"), user="^hi$")]))
    assert (
        await _openai_chat(server, "hi\n<system-reminder>\nbe good\n</system-reminder>", stream=True)
    ).text == "hello"
    suggested = "What will the user say next? Reply with ONLY the suggestion."
    assert (await _openai_chat(server, suggested, stream=True)).text == "A scripted title"
    assert (len(server.requests), len(server.side_calls), server.unexpected) == (1, 1, [])
