"""The prompts for agents of a phase. Pure: the same brief gives the same prompt, byte for byte."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core.phase_state import Document, Review
from holdfast.core.text.cut import cut
from holdfast.core.work.workflow import DOCUMENT_SIGNAL, DONE_SIGNAL, PLAN_SIGNAL
from holdfast.workflows.prompt_templates import Template, fill_template
from holdfast.workflows.quoting import fenced, inline
from holdfast.workflows.task_prompts import (
    MAX_CONTEXT_CHARS,
    QUOTE_RULE,
    MemoryChannel,
    diff_sections,
    fenced_each,
    memory_sections,
)

_MAX_DOCUMENT_CHARS = 60_000
_MAX_FINDINGS = 100

REVIEW_TOOL, RESEARCH_TOOL = "submit_review", "submit_research"
_END_INSTRUCTIONS = {
    DOCUMENT_SIGNAL: "call `submit_document` with a title and the document itself, as Markdown",
    PLAN_SIGNAL: "call `submit_plan` with all tasks, their acceptance criteria and what each depends on",
    DONE_SIGNAL: "call `submit_done` with a summary of what you did",
    REVIEW_TOOL: (
        "call `submit_review`: whether it passes, a summary, and each finding with its severity, file and line"
    ),
    RESEARCH_TOOL: "call `submit_research` with the topic and your answer",
}
_DATA_INSTRUCTION = "call `submit_document` with a title and, as its `text`, the data described below"


class PhaseBrief(NamedTuple):
    """Everything that a prompt to an agent of a phase may contain."""

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
    memory: Sequence[MemoryChannel] = ()
    instructions: Sequence[str] = ()
    messages: Sequence[str] = ()


def begin_phase(brief: PhaseBrief) -> str:
    parts = {
        "role": inline(brief.role),
        "goal": f"## The goal of the run\n\n{fenced(cut(brief.goal, MAX_CONTEXT_CHARS))}",
        "question": f"## The question\n\n{fenced(brief.question)}" if brief.question else "",
        "documents": "\n\n".join(_document_sections(brief.documents)),
        "plan": f"## The state of the plan's tasks\n\n{fenced(cut(brief.plan, _MAX_DOCUMENT_CHARS))}"
        if brief.plan
        else "",
        "changes": _change_section(brief.changes),
        "findings": findings_text(brief.findings),
        "diff": "\n\n".join(diff_sections(brief.diff, brief.diff_cut, "All changes of this run."))
        if brief.diff is not None
        else "",
    }
    return _join_parts(
        fill_template(brief.template, parts), *memory_sections(brief.memory), *_people_sections(brief), _rules(brief)
    )


def nudge_phase(brief: PhaseBrief) -> str:
    return _join_parts(
        "Your turn ended without an accepted result.",
        f"When you are done, {_end_instruction(brief)} (MCP server `holdfast`). If you cannot continue, call "
        "`report_blocker` and say what you need. A plain text message does not count as a result.",
        *_document_requirements(brief),
        *_people_sections(brief),
    )


def continue_phase(brief: PhaseBrief) -> str:
    """Deliver new messages: instructions of people, and answers to the agent's questions."""
    return _join_parts(fenced_each(brief.messages), f"Continue. When you are done, {_end_instruction(brief)}.")


def findings_text(reviews: Sequence[tuple[str, Review]]) -> str:
    """The findings of the reviews that did not pass."""
    failed = [(role, review) for role, review in reviews if not review.passed]
    if not failed:
        return ""
    shown = (f"### {inline(role)}\n\n{fenced(finding_lines(review))}" for role, review in failed)
    return "\n\n".join(["## What the last review found", *shown])


def finding_lines(review: Review) -> str:
    findings: Any = msgspec.json.decode(review.findings)
    rows = [_finding_line(finding) for finding in findings or [] if isinstance(finding, dict)]
    return "\n".join([review.summary, *rows[:_MAX_FINDINGS]])


def _finding_line(finding: dict[str, Any]) -> str:
    where = (
        f" ({finding['file']}{':' + str(finding['line']) if finding.get('line') else ''})"
        if finding.get("file")
        else ""
    )
    suggestion = f"\n  suggestion: {finding['suggestion']}" if finding.get("suggestion") else ""
    return f"- {finding.get('severity', 'major')}: {finding.get('concern', '')}{where}{suggestion}"


def _end_instruction(brief: PhaseBrief) -> str:
    return _DATA_INSTRUCTION if brief.schema is not None else _END_INSTRUCTIONS[brief.exit]


def _rules(brief: PhaseBrief) -> str:
    rules = (
        "## Rules\n\n"
        f"- You are in the run's own worktree, on branch {inline(brief.branch)}. Read and run what you like, but do "
        "not change files: changes are discarded.\n"
        f"- When you are done, {_end_instruction(brief)} (MCP server `holdfast`). If you cannot continue, call "
        "`report_blocker`. A turn that ends without either of these calls does not count as done.\n"
        f"- {QUOTE_RULE}"
    )
    return "\n\n".join([rules, *_document_requirements(brief)])


def _document_requirements(brief: PhaseBrief) -> Iterator[str]:
    if brief.schema is not None:
        schema = msgspec.json.format(msgspec.json.encode(brief.schema)).decode()
        yield f"Its `text` is data, as YAML or JSON, that matches this JSON schema:\n\n{fenced(schema, 'json')}"
    if brief.sections:
        headings = "\n".join(f"## {heading}" for heading in brief.sections)
        yield f"The document must have these headings, each with content under it:\n\n{fenced(headings)}"


def _document_sections(documents: Sequence[tuple[str, Document]]) -> Iterator[str]:
    for phase, document in documents:
        yield f"## From {inline(phase)}: {inline(document.title)}\n\n{fenced(cut(document.text, _MAX_DOCUMENT_CHARS))}"


def _change_section(changes: Sequence[str]) -> str:
    if not changes:
        return ""
    return f"## Changes that the user wants\n\nMake them, within the rules.\n\n{fenced_each(changes)}"


def _people_sections(brief: PhaseBrief) -> Iterator[str]:
    if brief.instructions:
        yield f"## Instructions from the user\n\nFollow them, within the rules.\n\n{fenced_each(brief.instructions)}"
    if brief.messages:
        yield f"## Messages to you\n\n{fenced_each(brief.messages)}"


def _join_parts(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
