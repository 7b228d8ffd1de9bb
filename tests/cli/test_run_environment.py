"""Which variables of the user's environment reach an agent, and what is said when it lacks one."""

import json
import sys
from typing import Any

import pytest

from tests.support.cli_stage import Stage, worker

AUTH = {"error": {"code": -32000, "message": "Authentication required"}}
UNAUTHORIZED = {"error": {"code": -32603, "message": "provider answered 401 Unauthorized: invalid API key"}}


def known(stage: Stage, name: str, *steps: dict[str, Any], **more: Any) -> list[str]:
    """The options by which an agent of the registry is played by a playbook, with all else that its entry says."""
    path = stage.book(worker(*steps), **more).removeprefix("playbook:")
    command = json.dumps([sys.executable, "-m", "holdfast", "agent", "playbook", path])
    return ["--agent", name, "--set", f"agents.{name}.command={command}"]


def seen_by(stage: Stage, run: str) -> set[str]:
    """The names that the agent's command printed."""
    (text,) = [json.dumps(d) for d in stage.data(run, "tool.returned")]
    return {word for word in text.replace("\\n", " ").replace('"', " ").split() if word.startswith("HAS_")}


@pytest.mark.parametrize(
    ("agent", "gets", "lacks"),
    [
        ("kimi", ["KIMI_MODEL_API_KEY", "KIMI_API_KEY"], ["ANTHROPIC_API_KEY", "COPILOT_PROVIDER_API_KEY"]),
        ("copilot", ["COPILOT_PROVIDER_API_KEY"], ["KIMI_MODEL_API_KEY", "GITHUB_PAT", "OPENAI_API_KEY"]),
        ("cline", ["CLINE_API_KEY"], ["KIMI_MODEL_API_KEY", "GITHUB_PAT"]),
        (
            "claude",
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"],
            ["OPENAI_API_KEY", "GITHUB_PAT"],
        ),
    ],
)
def test_keys_that_the_docs_name_reach_their_agent_and_no_other(
    stage: Stage, agent: str, gets: list[str], lacks: list[str]
) -> None:
    limits = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "32000", "MAX_THINKING_TOKENS": "8000", "AWS_PROFILE": "work"}
    names = [*gets, *lacks, *limits]
    printed = "; ".join(f'echo "${{{name}:+HAS_{name}}}"' for name in names)
    environment = {**dict.fromkeys([*gets, *lacks], "/tmp/x"), **limits}
    run = stage.run("look around", *known(stage, agent, {"run": printed}), env=environment)
    assert seen_by(stage, run) == {f"HAS_{name}" for name in [*gets, *limits]}


@pytest.mark.parametrize("error", [AUTH, UNAUTHORIZED])
def test_an_authentication_error_names_what_was_withheld_and_how_to_pass_it(stage: Stage, error: Any) -> None:
    options = known(stage, "kimi", error)
    environment = {"MY_KIMI_TOKEN": "some value", "OTHER_SECRET": "another value"}
    ended = stage.ended("run", "look around", *options, code=1, env=environment)
    assert ended["ended"] == "parked"
    assert "MY_KIMI_TOKEN, OTHER_SECRET" in ended["detail"]
    assert '[agents.kimi] secrets = ["MY_KIMI_TOKEN"]' in ended["detail"]
    assert "some value" not in json.dumps(stage.events(str(ended["run"])))

    stage.book(worker({"run": 'test "$MY_KIMI_TOKEN" = "some value"'}))
    passed = ("--set", 'agents.kimi.secrets=["MY_KIMI_TOKEN"]')
    assert stage.resume(str(ended["run"]), *passed, env=environment)["ended"] == "all_done"
    (returned,) = stage.data(str(ended["run"]), "tool.returned")
    assert returned["status"] == "completed"


def test_an_agent_that_dies_for_want_of_a_key_gets_the_same_advice(stage: Stage) -> None:
    dying = {"start": [{"stderr": "Error: no API key found; run kimi login"}, {"crash": {"how": "exit", "code": 1}}]}
    ended = stage.ended("run", "look around", *known(stage, "kimi", **dying), code=1, env={"MY_KIMI_TOKEN": "value"})
    assert '[agents.kimi] secrets = ["MY_KIMI_TOKEN"]' in ended["detail"]


def test_an_error_that_is_not_about_a_login_gets_no_such_advice(stage: Stage) -> None:
    full = {"error": {"code": -32603, "message": "the model is not known", "data": {"kind": "model"}}}
    ended = stage.ended("run", "look around", *known(stage, "kimi", full), code=1, env={"MY_KIMI_TOKEN": "value"})
    assert "MY_KIMI_TOKEN" not in ended["detail"]
