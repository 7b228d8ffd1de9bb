"""A turn that is cut off, by a defect or by the disk: its calls get their results, and the conversation can go on."""

import asyncio
import os
import resource
import select
import signal
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError

from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE, RECORD_ONLY
from tests.agents.builtin.driving import VARIABLES, Bench, Driven
from tests.agents.builtin.life import Life, each
from tests.support.model_server.script import Answer, ToolUse, in_turn
from tests.support.model_server.seen import Seen
from tests.support.model_server.server import ModelServer
from tests.support.wait import PATIENCE

_LOOK = ToolUse("glob", {"pattern": "*"}, id="call-look")
_LOOK_AGAIN = ToolUse("glob", {"pattern": "*.md"}, id="call-again")
_TITLE = 2  # after the session
_RESULT = 6  # after the title, the prompt, the answer, and that the call has started


def _the_disk_fails(tmp_path: Path, how: str, save: int = _RESULT) -> dict[str, Any]:
    passes = tmp_path / "passes"
    passes.touch()
    return {FAILPOINT_VARIABLE: f"builtin.save.before:{save}:{how}", FAILPOINT_FILE_VARIABLE: str(passes)}


def _file(bench: Bench, session: str) -> Path:
    return Path(bench.home, "builtin", "sessions", f"{session}.jsonl")


def _kept(bench: Bench, session: str) -> list[str]:
    return [kind for record in bench.kept(session) for kind in record]


def _lose(bench: Bench, session: str, *lost: str) -> None:
    """Take the lines with these words out of the session's file."""
    lines = _file(bench, session).read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not any(words in line for words in lost)]
    assert len(kept) == len(lines) - len(lost)
    _file(bench, session).write_text("".join(kept), encoding="utf-8")


def _shape(seen: Seen) -> list[str]:
    """Who spoke, in the order in which the provider sees it; consecutive results are one."""
    shape: list[str] = []
    for said in seen.messages:
        what = "calls" if said.calls else "results" if said.results else said.role
        if what != "results" or shape[-1:] != ["results"]:
            shape.append(what)
    return shape


def _results_follow_their_calls(seen: Seen) -> bool:
    """As OpenAI, Anthropic and Google all demand it."""
    for before, said in zip(seen.messages, seen.messages[1:], strict=False):
        if before.calls and not (said.calls or said.results):
            return False
    return sorted(call.id for call in seen.calls) == sorted(result.id for result in seen.results)


async def test_names_of_files_that_are_no_text_are_shown_with_escapes(bench: Bench, model: ModelServer) -> None:
    odd = os.path.join(os.fsencode(bench.cwd), b"caf\xe9.txt")
    with open(odd, "w", encoding="utf-8") as file:
        file.write("coffee\n")
    os.symlink(b"caf\xe9.txt", os.path.join(bench.cwd, "link"))
    calls = [
        ToolUse("glob", {"pattern": "*"}),
        ToolUse("grep", {"pattern": "coffee"}),
        ToolUse("read", {"path": "link"}),
        ToolUse("edit", {"path": "link", "old": "coffee", "new": "tea"}),
        ToolUse("bash", {"command": "ls"}),
    ]
    model.play(in_turn(Answer(tools=calls), Answer(text="seen")))
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        assert (await agent.say(await agent.start(), "look")).stop_reason == "end_turn"
        titles = [update.title for update in agent.watcher.of("tool_call")]
    found, matched, content, edited, listed = (result.text for result in model.requests[-1].results)
    assert found == "caf\\xe9.txt\nlink"
    assert "coffee" in matched
    assert content == "coffee\n"
    assert edited == "edited caf\\xe9.txt"
    assert "link" in listed
    assert titles[2:4] == ["Read caf\\xe9.txt", "Edit caf\\xe9.txt"]
    with open(odd, encoding="utf-8") as file:
        assert file.read() == "tea\n"


async def test_half_a_character_in_a_prompt_is_shown_with_an_escape(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(text="hm")))
    async with bench.agent(model) as agent:
        await agent.say(await agent.start(), "what is \ud83d?")
    assert model.requests[-1].users == ["what is \\ud83d?"]


async def test_a_folder_whose_name_is_no_text_is_refused(bench: Bench, model: ModelServer) -> None:
    os.mkdir(os.path.join(os.fsencode(bench.cwd), b"caf\xe9"))
    link = os.path.join(bench.cwd, "link")
    os.symlink(b"caf\xe9", link)
    async with bench.agent(model) as agent:
        await agent.connection.initialize(protocol_version=1)
        with pytest.raises(RequestError, match="not UTF-8"):
            await agent.connection.new_session(cwd=link)


@pytest.mark.parametrize("provider", VARIABLES)
async def test_after_a_turn_that_the_disk_cut_off_the_next_gives_its_calls_a_result(
    bench: Bench, model: ModelServer, tmp_path: Path, provider: str
) -> None:
    model.play(in_turn(Answer(tools=[_LOOK, _LOOK_AGAIN]), Answer(text="fine")))
    async with bench.agent(model, provider, **_the_disk_fails(tmp_path, "eio")) as agent:
        session = await agent.start()
        with pytest.raises(RequestError) as caught:
            await agent.say(session, "look")
        assert _kept(bench, session) == ["user-prompt", "tool-call", "tool-call"]
        await agent.say(session, "go on")
    assert _kept(bench, session)[3:] == ["tool-return", "tool-return", "user-prompt", "text"]
    assert "Input/output error" in str(caught.value.data)
    last = model.requests[-1]
    assert _results_follow_their_calls(last)
    assert "may or may not" in last.results[0].text
    assert "was not run" in last.results[1].text
    assert last.last_user.endswith("go on")


def _may_write_up_to(agent: Driven, size: int) -> None:
    """A write that goes further is cut off there, and the next one is refused: as on a disk with so much room."""
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def test_a_disk_that_was_full_is_written_to_again_once_there_is_room(bench: Bench, model: ModelServer) -> None:
    pipe = os.path.join(bench.cwd, "pipe")
    os.mkfifo(pipe)
    stuck = ToolUse("bash", {"command": "cat pipe"})
    model.play(in_turn(Answer(tools=[stuck]), Answer(text="fine"), Answer(text="fine again")))
    async with bench.agent(model, "openai", "--mode", "code") as agent:
        session = await agent.start()
        turn = asyncio.create_task(agent.say(session, "look"))
        await agent.watcher.until(lambda seen: any(u.status == "in_progress" for u in seen.of("tool_call_update")))
        whole = _file(bench, session).read_bytes()
        _may_write_up_to(agent, len(whole) + 10)
        await asyncio.to_thread(Path(pipe).write_text, "looked", encoding="utf-8")
        with pytest.raises(RequestError) as caught:
            await turn
        assert "File too large" in str(caught.value.data)
        assert len(_file(bench, session).read_bytes()) == len(whole) + 10
        _may_write_up_to(agent, len(whole))
        with pytest.raises(RequestError):
            await agent.say(session, "there is no room yet")
        assert _file(bench, session).read_bytes() == whole
        _may_write_up_to(agent, resource.RLIM_INFINITY)
        for words in ("go on", "and on"):
            assert (await agent.say(session, words)).stop_reason == "end_turn"
        seen = _shape(model.requests[-1])
        agent.kill()
    kept = ["user-prompt", "tool-call", "tool-return", "user-prompt", "text", "user-prompt", "text"]
    assert _kept(bench, session) == kept
    assert seen == ["user", "calls", "results", "user", "assistant", "user"]
    assert "may or may not" in model.requests[-1].results[0].text
    assert model.requests[-1].users == ["look", "go on", "and on"]


async def test_a_mode_can_be_set_once_there_is_room_again(bench: Bench, model: ModelServer) -> None:
    async with bench.agent(model) as agent:
        session = await agent.start()
        _may_write_up_to(agent, _file(bench, session).stat().st_size)
        with pytest.raises(RequestError):
            await agent.connection.set_session_mode(session_id=session, mode_id="code")
        _may_write_up_to(agent, resource.RLIM_INFINITY)
        await agent.connection.set_session_mode(session_id=session, mode_id="code")
    assert _file(bench, session).read_text(encoding="utf-8").count('"type":"mode"') == 1


async def test_a_full_disk_is_what_is_told_and_the_next_process_goes_on(
    bench: Bench, model: ModelServer, tmp_path: Path
) -> None:
    model.play(in_turn(Answer(tools=[_LOOK]), Answer(text="fine")))
    async with bench.agent(model, **_the_disk_fails(tmp_path, "enospc")) as agent:
        session = await agent.start()
        for _ in range(2):
            with pytest.raises(RequestError) as caught:
                await agent.say(session, "look")
            assert "No space left" in str(caught.value.data)
        agent.kill()
    async with bench.agent(model) as agent:
        await agent.come_back(session, "load")
        await agent.say(session, "go on")
    assert _shape(model.requests[-1]) == ["user", "calls", "results", "user"]


async def test_what_a_turn_could_not_settle_the_next_one_settles_before_it_begins(
    bench: Bench, model: ModelServer, tmp_path: Path
) -> None:
    os.mkfifo(os.path.join(bench.cwd, "pipe"))
    stuck = ToolUse("bash", {"command": "cat pipe"})
    model.play(in_turn(Answer(tools=[stuck]), Answer(text="fine")))
    async with bench.agent(model, "openai", "--mode", "code", **_the_disk_fails(tmp_path, "eio")) as agent:
        session = await agent.start()
        turn = asyncio.create_task(agent.say(session, "look"))
        await agent.watcher.until(lambda seen: any(u.status == "in_progress" for u in seen.of("tool_call_update")))
        await agent.connection.cancel(session_id=session)
        with pytest.raises(RequestError):
            await turn
        assert _kept(bench, session) == ["user-prompt", "tool-call"]
        await agent.say(session, "go on")
    assert _kept(bench, session) == ["user-prompt", "tool-call", "tool-return", "user-prompt", "text"]


async def test_a_prompt_that_could_not_begin_does_nothing_later(
    bench: Bench, model: ModelServer, tmp_path: Path
) -> None:
    model.play(in_turn(Answer(text="fine")))
    async with bench.agent(model, **_the_disk_fails(tmp_path, "eio", _TITLE)) as agent:
        session = await agent.start()
        with pytest.raises(RequestError):
            await agent.say(session, "look")
        await agent.say(session, "look again")
    assert [seen.users for seen in model.requests] == [["look again"]]


@pytest.mark.parametrize(
    ("fault", "told", "stride"),
    [
        ("enospc", "No space left", 4),
        pytest.param("enospc", "No space left", 1, marks=pytest.mark.torture),
        pytest.param("eio", "Input/output error", 1, marks=pytest.mark.torture),
    ],
)
async def test_a_disk_that_fails_at_any_save_is_told_and_the_conversation_goes_on(
    bench: Bench, model: ModelServer, fault: str, told: str, stride: int
) -> None:
    """In the same process when it failed once, in the next when it is full from then on."""
    for failpoint in each(await Life(bench, model, "whole").sit(RECORD_ONLY), "builtin.save.before")[::stride]:
        life = Life(bench, model, failpoint)
        async with life.agent(f"{failpoint}:{fault}") as agent:
            with pytest.raises(RequestError) as caught:
                await life.speak(agent)
            assert told in str(caught.value.data)
            kept = life.kept
            if fault == "eio":
                await life.speak(agent)
        if fault == "enospc":
            await life.sit(RECORD_ONLY)
        life.must_be_whole(kept)
        assert life.kept["lines"] == life.saves


@pytest.mark.parametrize("provider", VARIABLES)
@pytest.mark.parametrize("answered", [True, pytest.param(False, marks=pytest.mark.torture)])
async def test_a_conversation_that_went_on_over_an_open_call_is_whole_again(
    bench: Bench, model: ModelServer, provider: str, answered: bool
) -> None:
    model.play(in_turn(Answer(tools=[_LOOK]), Answer(text="one"), Answer(text="two"), Answer(text="three")))
    async with bench.agent(model, provider) as agent:
        session = await agent.start()
        await agent.say(session, "look")
        await agent.say(session, "go on")
    _lose(bench, session, "tool-return", '"one"', *([] if answered else ['"two"']))
    async with bench.agent(model, provider) as agent:
        await agent.come_back(session, "resume")
        await agent.say(session, "and now")
    last = model.requests[-1]
    assert _results_follow_their_calls(last)
    assert "interrupted" in last.results[0].text
    assert last.assistants == (["two"] if answered else [])


async def test_a_call_that_was_withdrawn_with_its_answer_gets_no_result(bench: Bench, model: ModelServer) -> None:
    model.play(in_turn(Answer(tools=[_LOOK], stop="refusal"), Answer(text="fine"), Answer(text="fine")))
    async with bench.agent(model) as agent:
        session = await agent.start()
        assert (await agent.say(session, "something bad")).stop_reason == "refusal"
        agent.kill()
    async with bench.agent(model) as agent:
        await agent.come_back(session, "resume")
        await agent.say(session, "something good")
    assert _shape(model.requests[-1]) == ["user"]
    assert "tool-return" not in _kept(bench, session)


def _wait_for_the_end(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([handle], [], [], PATIENCE)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            pytest.fail("it waits for ever")
    finally:
        os.close(handle)


@pytest.mark.parametrize(("stream", "place"), [("stdin", "/dev/null"), ("stdin", "file"), ("stdout", "file")])
def test_without_a_client_it_ends_and_says_so(bench: Bench, tmp_path: Path, stream: str, place: str) -> None:
    nobody = os.open(place if place == "/dev/null" else tmp_path / place, os.O_RDWR | os.O_CREAT, 0o600)
    theirs, ours = os.pipe()
    errors = os.open(bench.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    streams = {"stdin": theirs, "stdout": ours, stream: nobody}
    arguments = ["--model", "openai:x", "--base-url", "http://127.0.0.1:9"]
    environment = {"HOME": bench.home, "HOLDFAST_HOME": bench.home}
    pid = bench.zygote.spawn(arguments, bench.cwd, environment, [streams["stdin"], streams["stdout"], errors])
    _wait_for_the_end(pid)
    for descriptor in (nobody, theirs, ours, errors):
        os.close(descriptor)
    told = Path(bench.errors).read_text(encoding="utf-8")
    assert told.startswith(f"BadInput: {stream} is a file")
    assert told.count("\n") == 1
