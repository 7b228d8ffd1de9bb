"""The built-in agent in a run: Holdfast's own tools need no permission, whatever they are called with."""

import json
import sys
from collections.abc import Iterator

import pytest

from tests.support.cli_stage import CASE, Stage
from tests.support.model_server.script import Answer, Rule, Script, ToolUse
from tests.support.model_server.server import ModelServer


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def reports(tool: str, **arguments: object) -> Answer:
    return Answer(tools=[ToolUse(f"mcp__holdfast__{tool}", arguments)])


@pytest.mark.parametrize("policy", ["deny-all", pytest.param("ask", marks=pytest.mark.torture)])
def test_reports_are_never_asked_about_not_even_one_that_lacks_half(
    stage: Stage, model: ModelServer, policy: str
) -> None:
    """Whoever would be asked is not there: the run would wait for ever."""
    script = Script(
        [
            Rule(Answer(text="It is reported."), anywhere="(?m)^received$"),
            Rule(reports("submit_verdict", accept=True), anywhere="You are the evaluator"),
            Rule(reports("submit_case", **CASE), anywhere="missing required field"),
        ],
        otherwise=reports("submit_case", summary="half of it"),
    )
    model.play(script)
    given = ["--model", "openai:scripted", "--base-url", model.base_url("openai"), "--mode", "ask"]
    command = [sys.executable, "-m", "holdfast", "agent", "builtin", *given]
    options = ("--agent", "builtin", "--set", f"agents.builtin.command={json.dumps(command)}", "--allow", policy)
    env = {"OPENAI_API_KEY": "none"}
    run = stage.run("--workflow", "loop", stage.tasks("A"), *options, env=env)
    assert stage.states(run) == {"A": "COMPLETE"}
    assert stage.data(run, "permission.requested") == []
    assert stage.data(run, "tool.blocked") == []
    assert len(stage.data(run, "report.refused")) == 1
    assert stage.data(run, "warning.logged") == [], "its tools were there before it was prompted"
