"""Messages are on disk for ever: the golden lines were written before there was a schema, and are only added to."""

from pathlib import Path

import msgspec
import pytest

from holdfast.core.events.plan import ProposedTask
from holdfast.core.log.codec import DECODE_ERRORS
from holdfast.core.messages.attachments import Attachment
from holdfast.core.messages.reports import attribute_report
from holdfast.core.messages.schema import (
    AcceptRequest,
    AddConversation,
    Body,
    CancelTurn,
    ChangeRequest,
    DeleteMessage,
    DenialReply,
    EditMessage,
    EditPlan,
    MessageKind,
    RefusedReport,
    Report,
    ResearchReply,
    ResumeConversation,
    RevokeRule,
    SetOption,
    StopRequest,
    UserAnswer,
    UserMessage,
    decode_body,
    encode_body,
    try_decode_body,
)
from holdfast.core.messages.signals import ROLES, read_signal
from holdfast.leaf.errors import BadInput
from holdfast.store.base import Message

GOLDEN = (Path(__file__).parents[2] / "golden" / "messages.jsonl").read_bytes().splitlines()
AT = "2026-02-14T11:00:00.000Z"
CASE = {
    "summary": "done",
    "criteria": [{"criterion": "it works", "met": True, "evidence": "tests"}],
    "workarounds": [],
    "uncertainties": [],
    "learnings": ["use uv"],
}
STEP = {"id": "A", "title": "a", "description": "", "acceptance_criteria": [], "depends_on": [], "files": []}
PLAN = {"tasks": [STEP], "needs_design": False, "notes": "n", "preferences": ["p"]}
FINDING = {"severity": "major", "concern": "c", "file": None, "line": 3, "suggestion": None}
VERDICT = {"accept": False, "category": "weak_test", "concern": "c", "evidence": "e", "next_step": "n"}
NO_REPORT = "what it wrote to its file of reports is no report; agents report by their tools only"
REFUSED = RefusedReport("worker", "submit_case", "criteria is empty", '{"summary":"done"}', "c-1")

#  each golden line, in its order → what it says
BODIES: list[Body] = [
    UserMessage("mind the kelp"),
    UserMessage("mind the kelp", "T-1"),
    ChangeRequest("use sqlite"),
    StopRequest(7),
    StopRequest(7, "parked"),
    UserAnswer("p-1", allow=True, at=AT, token="0123456789ab"),
    UserAnswer("p-1", allow=False, option="no", reason="too wide", at=AT, token="0123456789ab"),
    UserAnswer("approval-planning", allow=False, changes="smaller tasks", at=AT, token="0123456789ab"),
    Report("submit_case", "worker", CASE, "c-1"),
    Report("submit_verdict", "evaluator", VERDICT, "c-1"),
    Report(
        "submit_plan", "planner", {"tasks": [STEP], "needs_design": False, "notes": "n", "preferences": ["p"]}, "c-1"
    ),
    Report(
        "submit_review",
        "reviewer:logic",
        {"passed": False, "summary": "s", "findings": [FINDING], "preferences": []},
        "c-1",
    ),
    Report("submit_document", "architect", {"title": "t", "text": "x", "preferences": []}, "c-1"),
    Report("submit_done", "agent", {"summary": "s", "preferences": []}, "c-1"),
    Report("request_research", "planner", {"topic": "t", "question": "q"}, "c-1"),
    Report("submit_research", "researcher", {"topic": "t", "answer": "a"}, "c-1"),
    Report("report_blocker", "worker", {"reason": "no key", "needed": "a key"}, "c-1"),
    Report("report_progress", "worker", {"text": "half way"}, "c-1"),
    Report("report_progress", "worker", {"text": "x"}),
    REFUSED,
    RefusedReport("agent", "(none)", NO_REPORT, "garbage", "c-1"),
    Report("submit_case", "worker", CASE, "c-2"),
    msgspec.structs.replace(REFUSED, conversation="c-2"),
    UserMessage("mind the kelp", conversation="c-1"),
    UserAnswer("p-1", allow=True, at=AT, token="0123456789ab", always=True),
    AcceptRequest(),
    AcceptRequest("T-1", "c-1", finish=True),
    CancelTurn("c-1", "t-1"),
    SetOption("c-1", "mode", "plan"),
    AddConversation("c-2", "codex", "what do you think?", "T-1", own_worktree=True),
    ResumeConversation("c-1"),
    EditMessage("m-1", "the other kelp"),
    DeleteMessage("m-1"),
    RevokeRule("r-1"),
    Report(
        "submit_tasks",
        "interviewer",
        {"overview": "o", "tasks": [{**STEP, "acceptance_criteria": ["it works"]}], "seeds": ["tests/test_a.py"]},
        "c-1",
    ),
    EditPlan("o", [ProposedTask(id="A", title="a", acceptance_criteria=["it works"])], ["tests/test_a.py"]),
    UserMessage("look", attachments=(Attachment("a-1", "kelp.png", "image/png", 3),)),
]
IN_ANOTHER_ORDER = {21}  # the lines of a report that was moved from a report file: their fields stood in another order


@pytest.mark.parametrize("number", range(len(GOLDEN)))
def test_golden_line_reads_as_the_body_it_was(number: int) -> None:
    message = msgspec.json.decode(GOLDEN[number], type=Message)
    assert decode_body(message.kind, message.body) == BODIES[number]


@pytest.mark.parametrize("number", sorted(set(range(len(GOLDEN))) - IN_ANOTHER_ORDER))
def test_body_is_written_as_its_golden_line(number: int) -> None:
    old = msgspec.json.decode(GOLDEN[number], type=Message)
    assert msgspec.json.encode(Message.of(BODIES[number], message_id=old.id, sender=old.sender)) == GOLDEN[number]


@pytest.mark.parametrize("number", IN_ANOTHER_ORDER)
def test_body_in_another_order_is_the_same_json(number: int) -> None:
    old = msgspec.json.decode(GOLDEN[number], type=Message)
    assert msgspec.json.decode(encode_body(BODIES[number])) == msgspec.json.decode(old.body)


def test_every_kind_of_the_inbox_has_a_golden_line() -> None:
    """Replies are made by the fold: they are never in an inbox."""
    kinds = {msgspec.json.decode(line, type=Message).kind for line in GOLDEN}
    tools = {f"signal.{signal.tool}" for signals in ROLES.values() for signal in signals}
    assert kinds == {*MessageKind, *tools} - {MessageKind.RESEARCH, MessageKind.DENIAL}


def test_every_golden_report_fits_the_tools_of_its_role() -> None:
    for body in BODIES:
        if isinstance(body, Report):
            assert msgspec.to_builtins(read_signal(body.role, body.tool, body.arguments)) == body.arguments


@pytest.mark.parametrize("reply", [ResearchReply("what was found out"), DenialReply("why not")])
def test_reply_is_only_its_text(reply: ResearchReply | DenialReply) -> None:
    assert bytes(encode_body(reply)) == b'{"text":"%s"}' % reply.text.encode()
    assert decode_body(reply.kind, encode_body(reply)) == reply


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("user", b"null"),
        ("user", b'{"text":1}'),
        ("user", b'{"text":"x","task":7}'),
        ("research", b'{"text":"x","task":7}'),
        ("stop", b"{}"),
        ("answer", b'{"request":"p"}'),
        ("signal.submit_case", b'{"role":"worker"}'),
        ("signal.", b'{"role":"worker","signal":[]}'),
        ("signal.submit_case", b'{"signal":{}}'),
        ("of a newer version", b"{}"),
    ],
)
def test_body_that_does_not_fit_its_kind_is_refused(kind: str, body: bytes) -> None:
    with pytest.raises((*DECODE_ERRORS, BadInput)):
        decode_body(kind, body)
    assert try_decode_body(kind, body) is None


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert decode_body("stop", b'{"epoch":7,"politely":true}') == StopRequest(7)


def test_report_is_attributed_to_the_conversation_whose_file_has_it() -> None:
    report = Report("submit_done", "worker", {"summary": "s"}, "of another")
    assert attribute_report("c-1", report.kind, encode_body(report)) == msgspec.structs.replace(
        report, conversation="c-1"
    )
    with pytest.raises(BadInput, match="a message of kind 'answer' is not a report"):
        attribute_report("c-1", "answer", encode_body(UserAnswer("p-1", allow=True)))
