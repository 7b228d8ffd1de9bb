"""What the agents of a phase are told, as text. Pure: the same brief is the same prompt, byte for byte."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core.state import Document, Review
from holdfast.core.text.cut import cut
from holdfast.core.work.workflow import DOCUMENT, DONE, PLAN
from holdfast.workflows.prompt_templates import Template, filled
from holdfast.workflows.quoting import fenced, inline
from holdfast.workflows.task_prompts import CONTEXT, QUOTED, Channel, each, from_memory, shown_diff

_TEXT = 60_000  # characters of one document
_FINDINGS = 100

REVIEW, RESEARCH = "submit_review", "submit_research"
_ENDINGS = {
    DOCUMENT: "call `submit_document` with a title and the document itself, as Markdown",
    PLAN: "call `submit_plan` with all tasks, their acceptance criteria and what each depends on",
    DONE: "call `submit_done` with a summary of what you did",
    REVIEW: "call `submit_review`: whether it passes, a summary, and each finding with its severity, file and line",
    RESEARCH: "call `submit_research` with the topic and your answer",
}
_DATA = "call `submit_document` with a title and, as its `text`, the data that is asked for below"


class PhaseBrief(NamedTuple):
    """All that an agent of a phase may be told."""

    template: Template
    role: str
    exit: str
    branch: str
    goal: str
    sections: Sequence[str] = ()
    schema: dict[str, Any] | None = None
    documents: Sequence[tuple[str, Document]] = ()
    plan: str = ""
    changes: Sequence[str] = ()
    findings: Sequence[tuple[str, Review]] = ()
    diff: str | None = None
    diff_cut: str | None = None
    question: str = ""
    memory: Sequence[Channel] = ()
    instructions: Sequence[str] = ()
    messages: Sequence[str] = ()


def begin(brief: PhaseBrief) -> str:
    parts = {
        "role": inline(brief.role),
        "goal": f"## The goal of the run\n\n{fenced(cut(brief.goal, CONTEXT))}",
        "question": f"## The question\n\n{fenced(brief.question)}" if brief.question else "",
        "documents": "\n\n".join(_documents(brief.documents)),
        "plan": f"## How the plan's tasks stand\n\n{fenced(cut(brief.plan, _TEXT))}" if brief.plan else "",
        "changes": _changes(brief.changes),
        "findings": findings(brief.findings),
        "diff": "\n\n".join(shown_diff(brief.diff, brief.diff_cut, "All changes of this run."))
        if brief.diff is not None
        else "",
    }
    return _joined(filled(brief.template, parts), *from_memory(brief.memory), *_people(brief), _rules(brief))


def nudge(brief: PhaseBrief) -> str:
    return _joined(
        "Your turn ended, and nothing that could be taken was handed in.",
        f"When you are done, {_ending(brief)} (MCP server `holdfast`). If you cannot go on, call "
        "`report_blocker` and say what you need. Words in a message alone are not taken.",
        *_wanted(brief),
        *_people(brief),
    )


def told(brief: PhaseBrief) -> str:
    """What came for it meanwhile: words of people, and answers to its questions."""
    return _joined(each(brief.messages), f"Go on. When you are done, {_ending(brief)}.")


def findings(reviews: Sequence[tuple[str, Review]]) -> str:
    """What reviews found that did not pass."""
    failed = [(role, review) for role, review in reviews if not review.passed]
    if not failed:
        return ""
    shown = (f"### {inline(role)}\n\n{fenced(finding_lines(review))}" for role, review in failed)
    return "\n\n".join(["## What the last review found", *shown])


def finding_lines(review: Review) -> str:
    found: Any = msgspec.json.decode(review.findings)
    rows = [_finding(one) for one in found or [] if isinstance(one, dict)]
    return "\n".join([review.summary, *rows[:_FINDINGS]])


def _finding(one: dict[str, Any]) -> str:
    where = f" ({one['file']}{':' + str(one['line']) if one.get('line') else ''})" if one.get("file") else ""
    then = f"\n  suggestion: {one['suggestion']}" if one.get("suggestion") else ""
    return f"- {one.get('severity', 'major')}: {one.get('concern', '')}{where}{then}"


def _ending(brief: PhaseBrief) -> str:
    return _DATA if brief.schema is not None else _ENDINGS[brief.exit]


def _rules(brief: PhaseBrief) -> str:
    rules = (
        "## Rules\n\n"
        f"- You are in the run's own worktree, on branch {inline(brief.branch)}. Read and run what you like; change "
        "nothing in it: what is changed there is not kept.\n"
        f"- When you are done, {_ending(brief)} (MCP server `holdfast`). If you cannot go on, call "
        "`report_blocker`. A turn that ends without either is not done.\n"
        f"- {QUOTED}"
    )
    return "\n\n".join([rules, *_wanted(brief)])


def _wanted(brief: PhaseBrief) -> Iterator[str]:
    if brief.schema is not None:
        shape = msgspec.json.format(msgspec.json.encode(brief.schema)).decode()
        yield f"Its `text` is data, as YAML or JSON, that fits this JSON schema:\n\n{fenced(shape, 'json')}"
    if brief.sections:
        headings = "\n".join(f"## {heading}" for heading in brief.sections)
        yield f"The document has these headings, each with something under it:\n\n{fenced(headings)}"


def _documents(documents: Sequence[tuple[str, Document]]) -> Iterator[str]:
    for phase, document in documents:
        yield f"## From {inline(phase)}: {inline(document.title)}\n\n{fenced(cut(document.text, _TEXT))}"


def _changes(changes: Sequence[str]) -> str:
    if not changes:
        return ""
    return f"## What the user wants to be changed\n\nFollow it, within the rules.\n\n{each(changes)}"


def _people(brief: PhaseBrief) -> Iterator[str]:
    if brief.instructions:
        yield f"## Instructions from the user\n\nFollow them, within the rules.\n\n{each(brief.instructions)}"
    if brief.messages:
        yield f"## Messages to you\n\n{each(brief.messages)}"


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
