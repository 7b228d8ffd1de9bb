"""Secrets are removed from text by their shape and by their value, and nothing else is."""

import base64
import hashlib
import json
import random
import string
import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.redaction.redaction import SHAPES_ONLY_REDACTOR, Redactor, with_redaction_notice

ALNUM = string.ascii_letters + string.digits
PEM = "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r0W"


def letters(count: int, seed: int = 1) -> str:
    """Made here, so that no file of this repository holds what looks like a token."""
    chance = random.Random(seed)
    return "".join(chance.choice(ALNUM) for _ in range(count - 2)) + "a7"


KEY_FILE = PEM.format("\n".join(letters(64, seed) for seed in range(10)))
WEBHOOK = f"hooks.slack.com/services/T01234567/B01234567/{letters(24)}"

SECRETS = {
    "GitHub token": [f"ghp_{letters(36)}", f"gho_{letters(36)}", f"ghs_{letters(36)}", f"github_pat_{letters(82)}"],
    "GitLab token": [f"glpat-{letters(20)}", f"glrt-{letters(20)}"],
    "Anthropic key": [f"sk-ant-api03-{letters(90)}"],
    "API key": [f"sk-{letters(48)}", f"sk-proj-{letters(60)}", f"sk-or-v1-{'0a' * 32}"],
    "Groq key": [f"gsk_{letters(52)}"],
    "AWS access key": ["AKIA" + "IOSFODNN7EXAMPLE", "ASIA" + "IOSFODNN7EXAMPLE"],
    "AWS secret key": [f"aws_secret_access_key = {letters(40)}", f'"SecretAccessKey": "{letters(40)}"'],
    "Slack token": [f"xoxb-1234567890-{letters(24)}", f"xapp-1-A012-{letters(30)}"],
    "Google key": [f"AIza{letters(35)}"],
    "Google token": [f"ya29.{letters(60)}"],
    "JSON web token": [JWT],
    "private key": [KEY_FILE, json.dumps(KEY_FILE)[1:-1], KEY_FILE.partition("-----END")[0]],
    "npm token": [f"npm_{letters(36)}"],
    "PyPI token": [f"pypi-AgEIcHlwaS5vcmc{letters(60)}"],
    "Stripe key": [f"sk_live_{letters(24)}", f"rk_test_{letters(24)}"],
    "Hugging Face token": [f"hf_{letters(34)}"],
    "Slack webhook": [f"https://{WEBHOOK}"],
    "Discord webhook": [f"https://discord.com/api/webhooks/123456789012345678/{letters(68)}"],
    "credentials": [f"Authorization: Bearer {letters(40)}", f'"authorization":"Basic {letters(24)}="'],
    "token in URL": [f"https://x.test/hook?token={letters(30)}", f"https://{letters(40)}@git.test/a.git"],
    "password in URL": [
        "postgres://app:hunter2@db.test:5432/shop",
        "redis://:hunter2@cache",
        "https://user:p%40ss@host/path",
        "amqp://u:a@b@host",
    ],
}
SECRET_PARTS = ["hunter2", "p%40ss", "a@b", letters(20)[:18], JWT[:30], "IOSFODNN7", "0a0a0a0a"]


@pytest.mark.parametrize(("kind", "secret"), [(kind, one) for kind, some in SECRETS.items() for one in some])
@pytest.mark.parametrize("around", ["{}", "I use {} here", 'export X="{}"\n', "({})", "a\n{}\nb"])
def test_known_shapes_are_removed_and_named(kind: str, secret: str, around: str) -> None:
    found = SHAPES_ONLY_REDACTOR.redact_text(around.replace("{}", secret))
    assert f"[redacted: {kind}]" in found
    assert not [part for part in SECRET_PARTS if part in secret and part in found]
    assert SHAPES_ONLY_REDACTOR.redact_text(found) == found


@pytest.mark.parametrize(("kind", "secret"), [(kind, one) for kind, some in SECRETS.items() for one in some])
def test_known_shapes_are_removed_from_json(kind: str, secret: str) -> None:
    raw = msgspec.Raw(msgspec.json.encode({"command": f"curl {secret}", "deep": [{"a": secret}, 1, None]}))
    found = msgspec.json.decode(SHAPES_ONLY_REDACTOR.redact_json(raw))
    assert f"[redacted: {kind}]" in found["command"]
    assert f"[redacted: {kind}]" in found["deep"][0]["a"]
    assert found["deep"][1:] == [1, None]


PLAIN = [
    hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
    hashlib.sha256(b"x").hexdigest(),
    str(uuid.UUID(int=123456789012345678901234567890)),
    base64.b64encode(bytes(range(256)) * 40).decode(),
    "task-implementation-details-of-the-scheduler",
    "sk-learn-compatible-estimator-with-a-long-name",
    "disk-0123456789012345678901234567",
    "holdfast/use-the-risk-model-k3x9p2/main",
    "src/very_long_module_name/with_underscores_and_more/TestThatSomethingLongHappens.java",
    "https://user@github.com/org/repo.git",
    "git@github.com:org/repo.git",
    "https://localhost:8080/path and me@example.com",
    "http://a.test:80,b@c.test",
    "postgres://${USER}:${PASSWORD}@localhost/db",
    "mongodb://localhost:27017/test?authSource=admin",
    "npm_config_registry=https://registry.npmjs.org",
    "hf_hub_download_with_progress_and_more",
    "sha512-" + base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    "AKIA is a prefix, so is ASIA",
    "eyJ",
    "-----BEGIN PRIVATE KEY----- is what such a file begins with",
    "-----BEGIN CERTIFICATE-----\n" + "A" * 64 + "\n-----END CERTIFICATE-----",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <your-token-goes-here>",
    "?token=short",
    "MAX_THINKING_TOKENS=8000",
    "the Basic authorization of somebody",
    "xoxo and many more kisses to everybody",
    "",
]


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert SHAPES_ONLY_REDACTOR.redact_text(text) is text
    raw = msgspec.Raw(msgspec.json.encode({"x": text}))
    assert SHAPES_ONLY_REDACTOR.redact_json(raw) is raw


def test_values_of_secret_variables_are_removed_by_name() -> None:
    redactor = Redactor.from_environment(
        {"DB_PASSWORD": "Tr0ub4dor&3", "HOME": "/home/me/secret-1", "MY_TOKEN": 'a"b\\c12345'}
    )
    assert redactor.redact_text("psql -W Tr0ub4dor&3 in /home/me/secret-1") == (
        "psql -W [redacted: DB_PASSWORD] in /home/me/secret-1"
    )
    raw = msgspec.Raw(msgspec.json.encode({"out": 'it is a"b\\c12345.'}))
    assert msgspec.json.decode(redactor.redact_json(raw)) == {"out": "it is [redacted: MY_TOKEN]."}


@pytest.mark.parametrize(
    "value", ["postgres", "1234567", "12345678", "true", "/home/me/.ssh/id_rsa", "~/keys/my-key-1"]
)
def test_values_that_are_ordinary_words_or_paths_are_left(value: str) -> None:
    text = f"it says {value} here"
    assert Redactor({"A_KEY": value}).redact_text(text) is text


def test_the_longer_of_two_values_is_removed_first() -> None:
    redactor = Redactor({"A": "abcdefg1", "B": "abcdefg1-and-more"})
    assert redactor.redact_text("abcdefg1-and-more abcdefg1") == "[redacted: B] [redacted: A]"


def test_half_characters_do_not_hide_a_secret() -> None:
    raw = msgspec.Raw(b'{"out":"\\ud83d ghp_%s"}' % letters(36).encode())
    assert b"[redacted: GitHub token]" in bytes(SHAPES_ONLY_REDACTOR.redact_json(raw))


ALL_SECRETS = [one for some in SECRETS.values() for one in some]
VALUES = Redactor({"PHRASE": "correct horse battery staple", "SHORT": "Tr0ub4dor&3"})


@given(
    secret=st.sampled_from([*ALL_SECRETS, "correct horse battery staple", "Tr0ub4dor&3"]),
    before=st.text("ab -:/\n", max_size=30),
    after=st.text("ab -:/\n", max_size=30),
    data=st.data(),
)
def test_a_secret_in_a_text_that_comes_in_parts_is_not_recorded(
    secret: str, before: str, after: str, data: st.DataObject
) -> None:
    """However the text is split: each part is cut before what may be the beginning of a secret."""
    whole = f"{before} {secret} {after}"
    marks = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    recorded, held = [], ""
    for start, end in zip([0, *marks], [*marks, len(whole)], strict=True):
        held += whole[start:end]
        cut = VALUES.safe_length(held)
        recorded.append(held[:cut])
        held = held[cut:]
    recorded.append(held)
    assert "".join(recorded) == whole
    assert "".join(map(VALUES.redact_text, recorded)) == VALUES.redact_text(whole)


def test_plain_words_are_not_held_back() -> None:
    for text in ("I wait.", "hello", "a line\n", "words, words", ""):
        assert SHAPES_ONLY_REDACTOR.safe_length(text) == len(text)


def test_little_is_held_back_of_a_text_without_spaces() -> None:
    text = base64.b64encode(random.Random(1).randbytes(50_000)).decode()
    assert len(text) - SHAPES_ONLY_REDACTOR.safe_length(text) <= 4_096


@given(st.text())
def test_any_text_is_redacted_once(text: str) -> None:
    found = VALUES.redact_text(text)
    assert VALUES.redact_text(found) == found
    assert 0 <= VALUES.safe_length(text) <= len(text)


def test_a_prompt_with_markers_says_what_they_are() -> None:
    plain, marked = "do it", "do it with [redacted: GitHub token]"
    assert with_redaction_notice(plain) is plain
    assert with_redaction_notice(marked).startswith(f"{marked}\n\nWhere this text says")
    assert with_redaction_notice(with_redaction_notice(marked)) == with_redaction_notice(marked)
