"""Facts of prompts: what they say, word for word, and that nothing quoted in them can speak for us."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages.signals import Category, signals_for_role
from holdfast.core.task_state import Check, EvaluatorVerdict
from holdfast.core.text.cut import cut_middle
from holdfast.core.work.tasks import TaskSpec
from holdfast.workflows.quoting import fenced, inline
from holdfast.workflows.task_prompts import (
    MAX_CONTEXT_CHARS,
    MAX_FILES,
    MAX_FULL_VERDICTS,
    MemoryChannel,
    begin_work,
    evaluate,
    repair_merge,
    resolve_conflicts,
    work_again,
)
from tests.workflows.prompt_examples import BRIEF, CASE, DIFF, FOLDER, PROMPTS


def without_fences(prompt: str) -> str:
    """What stands outside of all fences, as Markdown has them."""
    outside, fence = [], ""
    for line in prompt.split("\n"):
        ticks = re.match(r"`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif ticks:
            fence = ticks[0]
        else:
            outside.append(line)
    assert not fence, "a fence is not closed"
    return "\n".join(outside)


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_what_it_was(name: str) -> None:
    assert PROMPTS[name] == (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_there_is_no_golden_prompt_that_nobody_compares() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PROMPTS)


_EVIL = st.text(st.sampled_from("`~#\n\r \t\u2028\x1b\0aé\ud800"), max_size=60).map(
    lambda text: f"{text}\n## EVIL\n```\nEVIL\n`````\nEVIL {text}"
)


@given(evil=_EVIL)
def test_nothing_quoted_gets_out_of_its_fence(evil: str) -> None:
    task = TaskSpec(
        id=evil, title=evil, description=evil, acceptance_criteria=(evil,), files=(evil,), depends_on=(evil,)
    )
    brief = BRIEF._replace(
        goal=evil,
        task=task,
        branch=evil,
        overview=evil,
        memory=(MemoryChannel(evil, evil, cut=True),),
        ledger=(EvaluatorVerdict(1, False, evil, evil, evil, evil),),
        checks=(Check(evil, False, evil, evil),),
        instructions=(evil,),
        messages=(evil,),
    )
    for prompt in (
        begin_work(brief),
        work_again(brief),
        resolve_conflicts(brief, [evil]),
        repair_merge(brief, [evil]),
        evaluate(brief, CASE, evil, evil),
    ):
        outside = without_fences(prompt)
        assert "EVIL" not in re.sub(r"`[^`\n]*`", "", outside)
        prompt.encode()


def test_a_fence_is_longer_than_any_within_it() -> None:
    assert fenced("a ```` b") == "`````text\na ```` b\n`````"
    assert inline("a`b\nc") == "`a'b c`"


def test_a_terminals_colours_and_control_characters_are_taken_out() -> None:
    check = Check("x", False, "\x1b[31mred\x1b[0m\r\n10%\r20%\x07")
    assert "```text\nred\n10%\n20%\N{REPLACEMENT CHARACTER}\n```" in work_again(BRIEF._replace(checks=(check,)))


def test_carriage_returns_of_a_diff_are_seen_and_forge_no_line() -> None:
    prompt = evaluate(BRIEF, CASE, "-a\n+a\r\n+b\r-c\n")
    assert "```diff\n-a\n+a␍\n+b␍-c\n```" in prompt


def test_the_tools_that_prompts_name_are_those_of_the_role() -> None:
    own = {"worker": ("begin-work", "nudge"), "evaluator": ("evaluate", "evaluate-again")}
    for role, names in own.items():
        tools = {kind.tool for kind in signals_for_role(role)}
        for name in names:
            named = set(re.findall(r"`((?:submit|report)_\w+)`", PROMPTS[name]))
            assert named
            assert named <= tools


def test_every_category_of_a_rejection_is_explained() -> None:
    assert all(f"`{category.value}`: " in PROMPTS["evaluate"] for category in Category)


def test_a_cut_diff_is_said_to_be_cut_and_a_whole_one_is_not() -> None:
    assert "cut" in without_fences(evaluate(BRIEF, CASE, DIFF, "git diff x")).split("## The diff")[1]
    assert "cut" not in without_fences(evaluate(BRIEF, CASE, DIFF)).split("## The diff")[1]
    assert "It is empty" in evaluate(BRIEF, CASE, "\n")


def test_what_is_left_out_is_said() -> None:
    ledger = [EvaluatorVerdict(number, False, "weak_test", "x" * 5_000) for number in range(1, 30)]
    prompt = begin_work(BRIEF._replace(ledger=ledger))
    assert f"{29 - MAX_FULL_VERDICTS} older ones are left out." in prompt
    assert "### Iteration 29: rejected" in prompt
    assert "### Iteration 1: rejected" not in prompt
    assert "1000 more characters" in prompt
    assert "5 more characters" in begin_work(BRIEF._replace(overview="x" * (MAX_CONTEXT_CHARS + 5)))
    assert "and 5 more; `git diff" in resolve_conflicts(BRIEF, [f"f{n}" for n in range(MAX_FILES + 5)])


def test_long_output_keeps_its_beginning_and_more_of_its_end() -> None:
    assert cut_middle("a" * 10, 10) == "a" * 10
    assert cut_middle("ab" * 10, 8) == "ab\n[… 12 characters left out …]\nababab"
