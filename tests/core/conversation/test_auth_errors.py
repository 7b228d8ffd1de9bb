"""Errors about a login, told from others."""

import pytest

from holdfast.core.conversation.auth_errors import SecretVariables, authentication_advice, is_auth_error


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Authentication required", -32000),
        ("the agent refused session/new: something (-32000)", -32000),
        ("Invalid API key · Please run /login", None),
        ("provider answered 401", -32603),
        ("Incorrect API key provided: sk-…", None),
        ("Unauthorized", None),
        ("No API key found for anthropic", None),
        ("the api_key client option must be set: API key is not set", None),
        ("You are not logged in. Run `kimi login` first.", None),
        ("Missing environment variable: OPENAI_API_KEY", None),
        ("Please log in with codex login", None),
    ],
)
def test_is_about_a_login(text: str, code: int | None) -> None:
    assert is_auth_error(text, code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("usage limit reached", -32000),
        ("rate limit exceeded", -32000),
        ("Internal error", -32603),
        ("it exited with code 1", None),
        ("cannot read key.pem", None),
        ("TypeError: undefined is not a function at login.js:40123", None),
        ("", None),
    ],
)
def test_is_about_something_else(text: str, code: int | None) -> None:
    assert not is_auth_error(text, code)


def test_advice_names_the_variables_and_the_setting() -> None:
    told = authentication_advice("kimi", SecretVariables(["A_KEY", "B_KEY"], ["KIMI_API_KEY"], []), "/c.toml")
    assert "A_KEY, B_KEY" in told
    assert 'into /c.toml: [agents.kimi] secrets = ["KIMI_API_KEY", "A_KEY"]' in told


def test_advice_where_nothing_was_withheld() -> None:
    assert "set one of KIMI_API_KEY" in authentication_advice(
        "kimi", SecretVariables([], [], ["KIMI_API_KEY"]), "/c.toml"
    )
    assert "It was given KIMI_API_KEY." in authentication_advice(
        "kimi", SecretVariables([], ["KIMI_API_KEY"], []), "/c.toml"
    )


def test_long_lists_are_cut() -> None:
    assert "N7 and 2 more" in authentication_advice(
        "kimi", SecretVariables([f"N{number}" for number in range(10)], [], []), "/c.toml"
    )
