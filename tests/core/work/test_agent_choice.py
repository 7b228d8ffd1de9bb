"""Who plays a role, and who takes over."""

import pytest

from holdfast.core.work.agent_choice import AgentChoice, RoleAgents

CHOICE = AgentChoice(
    "claude",
    {"worker": RoleAgents(None, ("codex", "claude", "gemini")), "reviewer": RoleAgents("qwen", ("kimi",))},
)


def test_candidates_begin_with_the_first_choice_and_name_each_agent_once() -> None:
    assert CHOICE.for_task("worker") == ("claude", "codex", "gemini")
    assert CHOICE.for_task("worker", "codex") == ("codex", "claude", "gemini")
    assert CHOICE.for_task("evaluator") == ("claude",)
    assert CHOICE.for_phase("reviewer:logic", "opencode") == ("qwen", "kimi")
    assert CHOICE.for_phase("planner", "opencode") == ("opencode",)


@pytest.mark.parametrize(
    ("paused", "current", "goes_back", "picked"),
    [
        ((), None, False, "a"),
        (("a",), None, False, "b"),
        (("a", "b"), "b", False, "c"),
        ((), "b", False, "b"),
        ((), "b", True, "a"),
        (("a",), "b", True, "b"),
        (("b",), "b", False, "a"),
        (("a", "b", "c"), "b", False, "a"),
        ((), "gone", False, "a"),
    ],
)
def test_the_next_prompt_goes_to(paused: tuple[str, ...], current: str | None, *, goes_back: bool, picked: str) -> None:
    assert AgentChoice("a", goes_back=goes_back).pick(("a", "b", "c"), paused, current) == picked
