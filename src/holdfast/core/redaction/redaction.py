"""Removing secrets from text before it is recorded: by their shape, and by the values of the user's own secrets.

Everything that is written to a log passes through here, so the common case must be cheap: text without a secret is
recognised by a few scans in C. Only text that fails those scans is looked at rule by rule.

A secret is replaced by a marker that says what it was, as `[redacted: GitHub token]`. Markers never match a rule, so
redacting twice is the same as once.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.core.log.codec import UNREADABLE, is_json
from holdfast.core.redaction.secret_names import is_secret

MARKER = "[redacted: …]"
_MARK = "[redacted: "
_NOTICE = (
    f"Where this text says `{MARKER}`, a secret was removed when it was recorded. If you need it, read it from your "
    "environment or from its file, or ask the user to pass it to you; never guess it."
)
_SHORTEST_VALUE = 8  # characters: anything shorter is too common in ordinary text
_CERTAIN_VALUE = 20  # characters: a value of this length is a secret whatever it consists of
_LONGEST_SECRET = 4_096  # characters that are held back at the end of an unfinished text
_LONGEST_KEY_FILE = 32_768  # the same, of a private key in PEM
_CONTEXT_REACH = 200  # characters before a secret in which its name may stand
_RUN = 16  # every known shape has a run of so many letters, digits, underscores and dashes


class _Rule(NamedTuple):
    """One of `hints` occurs in every match. Patterns begin with a literal where they can: Python finds that quickly."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    replacement: str


_URL_WITH_USER = (  # and password
    r"((?:[A-Za-z][A-Za-z0-9+.-]{0,20})?://[^\s/:@\"'`\\<>()\[\]]{0,200})"
    r":(?![$%{*]|\d{1,5}[,;)}|&?])[^\s/\"'`\\<>\[]{1,500}@"
)
_URL_WITH_LONG_USER = r"((?:[A-Za-z][A-Za-z0-9+.-]{0,20})?://)(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{20,200}@"
_PEM = (
    r"-----BEGIN ((?:[A-Z0-9]+ )*)PRIVATE KEY( BLOCK)?-----"
    r"(?:(?:\\+[nrt]|[\sA-Za-z0-9+/=:,.\"'\-])*?-----END \1PRIVATE KEY\2-----|(?:\\+[nrt]|[\sA-Za-z0-9+/=]){64,})"
)


def _rule(kind: str, hints: tuple[str, ...], pattern: str, template: str = "{}") -> _Rule:
    """In `template`, `{}` stands for the marker; the rest is what is kept of the match."""
    return _Rule(hints, re.compile(pattern), template.format(f"{_MARK}{kind}]"))


def _prefixed(kind: str, prefix: str, rest: str) -> _Rule:
    """A token that begins with a fixed prefix, not in the middle of a longer word."""
    return _rule(kind, (prefix,), f"{re.escape(prefix)}(?<![A-Za-z0-9]{re.escape(prefix)}){rest}")


_RULES = (
    _rule("private key", ("PRIVATE KEY",), _PEM),
    _prefixed("GitHub token", "ghp_", "[A-Za-z0-9]{20,}"),
    _prefixed("GitHub token", "gho_", "[A-Za-z0-9]{20,}"),
    _prefixed("GitHub token", "ghu_", "[A-Za-z0-9]{20,}"),
    _prefixed("GitHub token", "ghs_", "[A-Za-z0-9]{20,}"),
    _prefixed("GitHub token", "ghr_", "[A-Za-z0-9]{20,}"),
    _prefixed("GitHub token", "github_pat_", "[A-Za-z0-9_]{20,}"),
    _prefixed("GitLab token", "glpat-", "[A-Za-z0-9_-]{16,}"),
    _prefixed("GitLab token", "gldt-", "[A-Za-z0-9_-]{16,}"),
    _prefixed("GitLab token", "glrt-", "[A-Za-z0-9_-]{16,}"),
    _prefixed("GitLab token", "glcbt-", "[A-Za-z0-9_-]{16,}"),
    _prefixed("Anthropic key", "sk-ant-", "[A-Za-z0-9_-]{16,}"),
    _prefixed("API key", "sk-", "(?:proj|svcacct|admin|or-v1|lf)-[A-Za-z0-9_-]{20,}"),
    _prefixed("API key", "sk-", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}(?![A-Za-z0-9_-])"),
    _prefixed("Groq key", "gsk_", "[A-Za-z0-9]{30,}"),
    _prefixed("AWS access key", "AKIA", "[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _prefixed("AWS access key", "ASIA", "[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _prefixed("Slack token", "xox", r"[abeoprs][.-](?=[A-Za-z-]*\d)[A-Za-z0-9.-]{12,}"),
    _prefixed("Slack token", "xapp-", r"\d-[A-Za-z0-9-]{16,}"),
    _prefixed("Google key", "AIza", "[0-9A-Za-z_-]{35}(?![A-Za-z0-9_-])"),
    _prefixed("Google token", "ya29.", "[0-9A-Za-z_-]{20,}"),
    _prefixed("Google secret", "GOCSPX-", "[0-9A-Za-z_-]{20,}"),
    _prefixed("JSON web token", "eyJ", r"[A-Za-z0-9_-]{13,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _prefixed("npm token", "npm_", "[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _prefixed("PyPI token", "pypi-", "AgE[A-Za-z0-9_-]{30,}"),
    _prefixed("Stripe key", "sk_live_", "[A-Za-z0-9]{16,}"),
    _prefixed("Stripe key", "sk_test_", "[A-Za-z0-9]{16,}"),
    _prefixed("Stripe key", "rk_live_", "[A-Za-z0-9]{16,}"),
    _prefixed("Stripe key", "rk_test_", "[A-Za-z0-9]{16,}"),
    _prefixed("Stripe secret", "whsec_", "[A-Za-z0-9+/=]{24,}"),
    _prefixed("Hugging Face token", "hf_", r"(?=[A-Za-z]*[A-Z])[A-Za-z0-9]{30,}"),
    _prefixed("Docker token", "dckr_pat_", "[A-Za-z0-9_-]{20,}"),
    _prefixed("SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _rule("Slack webhook", ("hooks.slack.com/",), r"(hooks\.slack\.com/[a-z]+/)[A-Za-z0-9/_-]{16,}", r"\g<1>{}"),
    _rule("Discord webhook", ("/webhooks/",), r"(/webhooks/\d{10,}/)[A-Za-z0-9_-]{16,}", r"\g<1>{}"),
    _rule("Teams webhook", ("webhook.office.com/",), r"(webhook\.office\.com/)[A-Za-z0-9@/_-]{16,}", r"\g<1>{}"),
    _rule(
        "AWS secret key",
        ("ccess_key", "CCESS_KEY", "ccessKey"),
        r"([Ss]ecret_?[Aa]ccess_?[Kk]ey[\"']?\s*[=:]\s*[\"']?|SECRET_ACCESS_KEY[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9+/]{40}",
        r"\g<1>{}",
    ),
    _rule(
        "credentials",
        ("uthorization",),
        r"([Aa]uthorization[\"']?\s*[:=]\s*[\"']?(?:[Bb]earer|[Bb]asic|[Tt]oken)\s+)(?=[A-Za-z._~+/-]*\d)[\w.~+/=-]{16,}",
        r"\g<1>{}",
    ),
    _rule("token in URL", ("oken=",), r"([?&](?:\w{1,20}_)?token=)(?=[A-Za-z_.-]*\d)[A-Za-z0-9_.-]{16,}", r"\g<1>{}"),
    _rule("password in URL", ("://",), _URL_WITH_USER, r"\g<1>:{}@"),
    _rule("token in URL", ("://",), _URL_WITH_LONG_USER, r"\g<1>{}@"),
)

_TOKEN_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_SHAPE = bytes(ord("x") if byte in _TOKEN_CHARACTERS else ord(" ") for byte in range(256))
_LONG_RUN = b"x" * _RUN
# Literals of the rules, in a long run or beside one.
_IN_RUN = re.compile(
    rb"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt)-|sk-|gsk_|AKIA|ASIA|xox|xapp-|AIza|GOCSPX-|eyJ|npm_"
    rb"|pypi-|[rs]k_(?:live|test)_|whsec_|hf_|dckr_pat_)"
)
_FIRST_TWO = frozenset(
    b"gh gi gl gs sk rk AK AS AI xo xa GO ey np py wh hf dc".split()
)  # of the words of these literals
_BESIDE_RUN = (
    b"PRIVATE KEY",
    b"hooks.slack.com/",
    b"/webhooks/",
    b"webhook.office.com/",
    b"uthorization",
    b"oken=",
    b"ccess_key",
    b"CCESS_KEY",
    b"ccessKey",
    b"whsec_",
    b"ya29.",
    b"SG.",
)
_PREFIXES = tuple(rule.hints[0] for rule in _RULES if rule.pattern.pattern.startswith(re.escape(rule.hints[0])))
_NAMES = ("authorization", "bearer", "basic", "token", "secretaccesskey", "secret_access_key", "aws_secret_access_key")
_CONTEXT = re.compile(rf"(?:(?:{'|'.join(_NAMES)})[\"'\s:=]*)+$", re.IGNORECASE)
_KEY_FILE = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?!.*-----END )", re.DOTALL)


class Redactor:
    """Removes secrets from text. `values` are secrets of the user's own, by the name to show for each."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        found = {value: name for name, value in (values or {}).items() if _is_strong(value)}
        self._values = [(value, f"{_MARK}{found[value]}]") for value in sorted(found, key=len, reverse=True)]
        forms = {form for value in found for form in (value, _as_json(value))}
        encoded = [form.encode(errors="surrogateescape") for form in forms]
        self._beside = (*_BESIDE_RUN, *(form for form in encoded if _has_long_run(form)))
        self._short = [form for form in encoded if not _has_long_run(form)]

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Redactor":
        """With the values of all variables that hold a secret, whether an agent gets them or not."""
        return cls({name: value for name, value in environment.items() if is_secret(name, value)})

    def text(self, text: str) -> str:
        """The same text without secrets; the same object when there is none."""
        if len(text) < _SHORTEST_VALUE or not self.may_hold_secret(_encoded(text)):
            return text
        return self._clean(text)

    def raw(self, data: msgspec.Raw) -> msgspec.Raw:
        """The same for JSON: no string in it holds a secret."""
        encoded = bytes(data)
        if len(encoded) < _SHORTEST_VALUE or not self.may_hold_secret(encoded):
            return data
        try:
            found = msgspec.json.decode(data)
            clean = self.within(found)
        except UNREADABLE:  # half characters, as of a text that was cut: its JSON is still text
            text = self._clean(encoded.decode(errors="surrogateescape")).encode(errors="surrogateescape")
            return msgspec.Raw(text) if is_json(text) else data
        return data if clean is found else msgspec.Raw(msgspec.json.encode(clean))

    def within(self, value: Any, skipped: Collection[str] = ()) -> Any:
        """The same data with no secret in its strings; the same object when there is none. Not below `skipped` keys."""
        match value:
            case str():
                return self.text(value)
            case list():
                items = [self.within(item, skipped) for item in value]
                return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
            case dict():
                fields = {key: one if key in skipped else self.within(one, skipped) for key, one in value.items()}
                return fields if any(fields[key] is not one for key, one in value.items()) else value
            case _:
                return value

    def may_hold_secret(self, data: bytes) -> bool:
        """Cheap, and False only for data without a secret."""
        if b"@" in data and b"://" in data:
            return True
        for form in self._short:
            if form in data:
                return True
        shape = data.translate(_SHAPE)
        return _LONG_RUN in shape and self._is_suspicious(data, shape)

    def _is_suspicious(self, data: bytes, shape: bytes) -> bool:
        """The same for data with long runs."""
        for literal in self._beside:
            if literal in data:
                return True
        start = shape.find(_LONG_RUN)
        while start >= 0:
            end = shape.find(b" ", start)
            end = len(data) if end < 0 else end
            for word in data[start:end].replace(b"_", b"-").split(b"-"):
                if word[:2] in _FIRST_TWO and _IN_RUN.search(data, start, end):
                    return True
            start = shape.find(_LONG_RUN, end)
        return False

    def values_in(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where the values stand in data, as they are or as JSON writes them. Not from the middle of an escape."""
        for form in (*self._short, *self._beside[len(_BESIDE_RUN) :]):
            start = data.find(form)
            while start >= 0:
                if data[start - 1 : start] != b"\\":
                    yield start, start + len(form)
                start = data.find(form, start + len(form))

    def cut(self, text: str) -> int:
        """How much of an unfinished text can be recorded now: the rest may be the beginning of a secret."""
        word = _last_word(text)
        before = len(text) - len(word)
        end = before if _may_begin_secret(word) else len(text)
        if (context := _CONTEXT.search(text, max(0, before - _CONTEXT_REACH), before)) is not None:
            end = context.start()
        for value, _ in self._values:
            end = min(end, len(text) - _overlap(text, value))
        unfinished = _KEY_FILE.search(text, max(0, len(text) - _LONGEST_KEY_FILE))
        if unfinished is not None:
            end = min(end, unfinished.start())
        for start, stop in self._secrets(text):
            if start < end < stop:
                end = start
        return end

    def _clean(self, text: str) -> str:
        for value, mark in self._values:
            if value in text:
                text = text.replace(value, mark)
        for rule in _RULES:
            if any(hint in text for hint in rule.hints):
                text = rule.pattern.sub(rule.replacement, text)
        return text

    def _secrets(self, text: str) -> Iterator[tuple[int, int]]:
        if not self.may_hold_secret(_encoded(text)):
            return
        for value, _ in self._values:
            start = text.find(value)
            while start >= 0:
                yield start, start + len(value)
                start = text.find(value, start + len(value))
        for rule in _RULES:
            if any(hint in text for hint in rule.hints):
                yield from (found.span() for found in rule.pattern.finditer(text))


SHAPES = Redactor()  # known shapes only


def is_redacted(text: str) -> bool:
    return _MARK in text


def with_notice(text: str) -> str:
    """A prompt that was taken from the log, with what its reader has to know about the markers in it."""
    return f"{text}\n\n{_NOTICE}" if is_redacted(text) and _NOTICE not in text else text


def _is_strong(value: str) -> bool:
    """Whether a value can be looked for in any text: ordinary words, numbers and paths would be found everywhere."""
    value = value.strip()
    if len(value) < _SHORTEST_VALUE or value.startswith(("/", "~", "./", "http://", "https://")) or is_redacted(value):
        return False
    if len(value) >= _CERTAIN_VALUE:
        return True
    kinds = (str.islower, str.isupper, str.isdigit, lambda one: not one.isalnum())
    present = sum(any(kind(character) for character in value) for kind in kinds)
    return present >= 2 and not value.isalpha()  # noqa: PLR2004 - a mixture


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half characters
        return text.encode(errors="replace")


def _as_json(value: str) -> str:
    return msgspec.json.encode(value.encode(errors="replace").decode()).decode()[1:-1]


def _has_long_run(form: bytes) -> bool:
    return _LONG_RUN in form.translate(_SHAPE)


def _last_word(text: str) -> str:
    """What follows the last white space; no more of it than a secret is long."""
    end = text[-_LONGEST_SECRET:]
    return end[len(end) - len(end.split()[-1]) :] if end and not end[-1].isspace() else ""


def _may_begin_secret(word: str) -> bool:
    """False for a plain word. What has digits or signs in it may go on as a token or as a URL with a password."""
    plain = word.strip(".,;!?()[]\"'*`")
    if not plain.isalpha():
        return bool(plain)
    known = any(plain.startswith(prefix) or prefix.startswith(plain) for prefix in _PREFIXES)
    return known or any(name.startswith(plain.lower()) for name in _NAMES)


def _overlap(text: str, value: str) -> int:
    """How many characters at the end of the text are the beginning of the value."""
    most = min(len(text), len(value) - 1)
    return next((length for length in range(most, 0, -1) if text.endswith(value[:length])), 0)
