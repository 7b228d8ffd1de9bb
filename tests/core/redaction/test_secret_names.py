"""Which variables are secrets by their names."""

import pytest

from holdfast.core.redaction.secret_names import is_secret_name


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "GITHUB_TOKEN",
        "GITHUB_PAT",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "DB_PASSWORD",
        "PGPASSWORD",
        "DB_PASS",
        "MYSQL_PWD",
        "SECRET_KEY_BASE",
        "CLIENTSECRET",
        "OPENAI_APIKEY",
        "NPM_AUTHTOKEN",
        "AUGMENT_SESSION_AUTH",
        "SESSION_COOKIE",
        "DEPLOY_KEYS",
        "npm_config__authToken",
    ],
)
def test_secrets(name: str) -> None:
    assert is_secret_name(name, "some value")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "32000"),
        ("MAX_THINKING_TOKENS", "8000"),
        ("MAX_MCP_OUTPUT_TOKENS", "25000"),
        ("TOKEN_LIMIT", "128k"),
        ("API_KEY_TTL", "3600"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("KEYBOARD_LAYOUT", "us"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("XAUTHORITY", "/home/me/.Xauthority"),
        ("PATH", "/bin"),
        ("OLDPWD", "/"),
        ("PWD", "/"),
        ("AWS_PROFILE", "work"),
        ("AWS_REGION", "eu-central-1"),
        ("DATABASE_URL", "postgres://localhost/x"),
    ],
)
def test_settings(name: str, value: str) -> None:
    assert not is_secret_name(name, value)


def test_a_secret_under_the_name_of_a_limit_is_still_a_secret() -> None:
    assert is_secret_name("API_KEY_LIMIT", "not a number")
