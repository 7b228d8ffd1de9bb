"""Turns and what is said in them: choice of a turn, updates, permissions, cancelling, ends."""

import asyncio
from typing import Any

import acp
import pytest
from acp import schema

from tests.agents.playbook.driver import CANCELLED, Stagehand, allow


async def test_text_is_streamed_in_chunks_with_variables_filled_in(stage: Stagehand) -> None:
    agent = await stage.play(
        """
        turns:
          - steps:
              - say: {text: "{{prompt}}|{{cwd}}|{{session}}|{{turn}}|{{env.WHO}}|{{!turn}}", chunk: 4, delay: 0.001}
              - think: {text: a thought, chunk: 5}
        """,
        WHO="me",
    )
    answer = await agent.prompt("hello")
    assert answer.stop_reason == "end_turn"
    assert agent.text == f"hello|{stage.cwd}|{agent.session}|1|me|{{{{turn}}}}"
    assert {len(one["content"]["text"]) for one in agent.of_kind("agent_message_chunk")[:-1]} == {4}
    assert agent.thoughts == "a thought"


async def test_turns_are_played_in_order_or_as_the_prompt_asks(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - steps: [say: "one "]
          - {when: "(?i)review", once: true, steps: [say: "reviewed "]}
          - {resume_context: true, steps: [say: "resumed "]}
          - steps: [say: "two "]
        otherwise: [say: "otherwise "]
    """)
    for prompt in ("go", "please REVIEW", "please review", "RESUME CONTEXT FOR CONTINUING TASK\n…", "go"):
        await agent.prompt(prompt)
    assert agent.text == "one reviewed two resumed otherwise "


async def test_a_prompt_without_a_turn_is_refused_aloud(stage: Stagehand) -> None:
    agent = await stage.play("turns: []")
    assert (await agent.prompt()).stop_reason == "refusal"
    assert "no turn for this prompt" in agent.text


async def test_plan_tools_usage_commands_mode_title_and_config_reach_the_client(stage: Stagehand) -> None:
    agent = await stage.play("""
        agent:
          modes: {current: ask, available: [ask, {id: code, name: Code, description: writes}]}
          models: {current: small, available: [small, large]}
          config: [{id: fast, current: false}]
        turns:
          - steps:
              - plan: [first, {content: second, status: in_progress, priority: high}]
              - tool: {id: t1, title: Look, kind: read, status: pending, locations: [a.py, {path: b.py, line: 3}],
                       input: {q: "{{prompt}}"}}
              - tool_update: {id: t1, status: in_progress, content: [looking]}
              - tool_done: {content: [{diff: {path: a.py, old: x, new: y}}, {text: seen}], output: {n: 1}}
              - tool: Second
              - tool_failed: {content: [{terminal: t-9}]}
              - usage: {used: 10, size: 1000, cost: 0.25}
              - commands: [{name: web, description: search, hint: what}, {name: clear, description: forget}]
              - mode: code
              - title: "About {{prompt}}"
              - config: {model: large}
              - end: {reason: max_tokens, usage: {input: 3, output: 4}}
    """)
    answer = await agent.prompt("x")
    assert answer.stop_reason == "max_tokens"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 7
    kinds = [update["sessionUpdate"] for update in agent.updates]
    assert kinds == [
        "plan",
        "tool_call",
        "tool_call_update",
        "tool_call_update",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "available_commands_update",
        "current_mode_update",
        "session_info_update",
        "config_option_update",
    ]
    done = agent.updates[3]
    assert (done["toolCallId"], done["status"], done["rawOutput"]) == ("t1", "completed", {"n": 1})
    assert agent.updates[1]["rawInput"] == {"q": "x"}
    assert agent.updates[5]["status"] == "failed"
    assert agent.updates[6]["cost"] == {"amount": 0.25, "currency": "USD"}


async def test_modes_models_and_options_can_be_set_and_are_kept(stage: Stagehand) -> None:
    script = """
        agent:
          modes: {current: ask, available: [ask, code]}
          models: {current: small, available: [small, large]}
          config: [{id: fast, current: false, category: model_config}]
    """
    agent = await stage.start(script)
    made = await agent.new(stage.cwd)
    assert made.modes is not None
    assert made.modes.current_mode_id == "ask"
    assert [option.id for option in made.config_options or []] == ["fast", "model"]
    await agent.connection.set_session_mode(session_id=agent.session, mode_id="code")
    await agent.connection.set_config_option(session_id=agent.session, config_id="model", value="large")
    with pytest.raises(acp.RequestError):
        await agent.connection.set_session_mode(session_id=agent.session, mode_id="none")
    again = await stage.start(script)
    loaded = await again.load(agent.session, stage.cwd)
    assert loaded.modes.current_mode_id == "code"
    assert loaded.config_options[1].current_value == "large"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (allow("allow"), "allowed: allow"),
        (allow("always"), "allowed: always"),
        (allow("reject_once"), "rejected: reject_once"),
        (CANCELLED, "cancelled: cancelled"),
    ],
)
async def test_a_permission_branches_on_the_answer(stage: Stagehand, answer: Any, said: str) -> None:
    agent = await stage.play("""
        turns:
          - steps:
              - permission:
                  title: delete everything
                  kind: delete
                  options: [{id: allow, kind: allow_once}, {id: always, kind: allow_always}, reject_once]
                  allowed: [say: "allowed: {{result}}"]
                  rejected: [say: "rejected: {{result}}"]
                  cancelled: [say: "cancelled: {{result}}"]
    """)
    agent.client.answers = [answer]
    assert (await agent.prompt()).stop_reason == "end_turn"
    assert agent.text == said
    (asked,) = agent.client.asked
    assert asked["tool"].title == "delete everything"
    assert [option.kind for option in asked["options"]] == ["allow_once", "allow_always", "reject_once"]
    ended = [frame["params"]["update"].get("status") for frame in agent.frames if _is_tool_update(frame)]
    assert ended == (["completed"] if said.startswith("allowed") else [])


def _is_tool_update(frame: dict[str, Any]) -> bool:
    return bool(frame.get("params", {}).get("update", {}).get("sessionUpdate") == "tool_call_update")


async def test_a_cancel_ends_the_turn_at_once_and_the_next_turn_follows(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - steps: [say: sleeping, sleep: 600, say: never]
          - {steps: [say: " again", hang: turn], on_cancel: [say: " tidied"]}
          - steps: [permission: {title: may I, cancelled: [say: " asked"]}]
    """)
    asking = agent.asking()
    await agent.until(lambda agent: agent.text == "sleeping")
    await agent.cancel()
    assert (await asking).stop_reason == "cancelled"
    asking = agent.asking()
    await agent.until(lambda agent: agent.text.endswith("again"))
    await agent.cancel()
    assert (await asking).stop_reason == "cancelled"
    assert agent.text.endswith("tidied")
    agent.client.answering.clear()
    asking = agent.asking()
    await agent.until(lambda agent: any(frame.get("method") == "session/request_permission" for frame in agent.frames))
    await agent.cancel()
    assert (await asking).stop_reason == "cancelled"
    assert agent.text.endswith("asked")
    agent.client.answers = [CANCELLED]
    agent.client.answering.set()


async def test_a_turn_may_ignore_the_cancel(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - {on_cancel: ignore, steps: [say: started, wait_for: go, say: " finished"]}
    """)
    asking = agent.asking()
    await agent.until(lambda agent: agent.text == "started")
    await agent.cancel()
    stage.put("go", "")
    assert (await asking).stop_reason == "end_turn"
    assert agent.text == "started finished"


async def test_a_turn_may_end_with_an_error_and_the_agent_goes_on(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - steps: [error: {code: -32000, message: "limit reached, {{prompt}}", data: {reset: 5}}]
          - steps: [replace: {path: none.txt, old: a, new: b}]
          - steps: [end: refusal]
    """)
    with pytest.raises(acp.RequestError, match="limit reached, go") as limit:
        await agent.prompt()
    assert (limit.value.code, limit.value.data) == (-32000, {"reset": 5})
    with pytest.raises(acp.RequestError, match=r"turns\[1\]\[0\].replace: none.txt: not there"):
        await agent.prompt()
    assert (await agent.prompt()).stop_reason == "refusal"


async def test_only_one_turn_at_a_time_and_only_in_open_sessions(stage: Stagehand) -> None:
    agent = await stage.play("turns: [[say: on, wait_for: go]]")
    asking = agent.asking()
    await agent.until(lambda agent: agent.text == "on")
    with pytest.raises(acp.RequestError, match="a turn is running"):
        await agent.prompt()
    stage.put("go", "")
    await asking
    with pytest.raises(acp.RequestError) as unknown:
        await agent.prompt(session="play-none")
    assert unknown.value.code == -32002


async def test_an_answer_can_come_early_late_updates_follow_and_it_can_come_twice(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - steps: [say: a, answer: end_turn, say: late, answer: end_turn, say: later]
          - steps: [say: next]
    """)
    assert (await agent.prompt()).stop_reason == "end_turn"
    await agent.until(lambda agent: agent.text == "alatelater")
    answers = [frame for frame in agent.frames if (frame.get("result") or {}).get("stopReason")]
    assert len(answers) == 2
    assert answers[0]["id"] == answers[1]["id"]
    await agent.prompt()
    assert agent.text.endswith("next")


async def test_whoever_heard_an_early_answer_may_ask_again_at_once(stage: Stagehand) -> None:
    agent = await stage.play(f"turns: [{'[answer: end_turn], ' * 40}]")
    for _ in range(40):
        assert (await agent.prompt()).stop_reason == "end_turn"


async def test_what_a_prompt_may_hold_is_what_the_script_accepts(stage: Stagehand) -> None:
    agent = await stage.play("agent: {accepts: [image]}\nturns: [[say: '{{prompt}}']]")
    picture = schema.ImageContentBlock(type="image", data="aGk=", mime_type="image/png")
    sound = schema.AudioContentBlock(type="audio", data="aGk=", mime_type="audio/wav")
    with pytest.raises(acp.RequestError, match="takes no audio"):
        await agent.connection.prompt(session_id=agent.session, prompt=[sound])
    await agent.connection.prompt(session_id=agent.session, prompt=[acp.text_block("see"), picture])
    assert agent.text == "see\n[image]"


async def test_steps_repeat_and_a_frame_of_the_scripts_own_is_sent(stage: Stagehand) -> None:
    agent = await stage.play("""
        turns:
          - steps:
              - repeat: {times: 3, steps: [say: "{{n}} "]}
              - send: {jsonrpc: "2.0", method: _vendor/hello, params: {at: "{{cwd}}"}}
    """)
    await agent.prompt()
    assert agent.text == "1 2 3 "
    await agent.until(lambda agent: any(frame.get("method") == "_vendor/hello" for frame in agent.frames))
    await asyncio.sleep(0)
