"""Remove secrets from text before it is recorded: by their shape, and by the values of the user's own secrets.

Everything written to a log passes through here, so the common case must be cheap: a few scans in C recognise text
without a secret. Only other text is matched against every rule.

A marker such as `[redacted: GitHub token]` replaces a secret. Markers never match a rule, so redacting twice gives the
same result as once.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from holdfast.core.log.codec import DECODE_ERRORS, is_json
from holdfast.core.redaction.secret_names import is_secret_name

MARKER = "[redacted: …]"
_MARKER_START = "[redacted: "
_NOTICE = (
    f"Where this text says `{MARKER}`, a secret was removed when it was recorded. If you need it, read it from your "
    "environment or from its file, or ask the user to pass it to you; never guess it."
)
_MIN_VALUE_CHARS = 8  # anything shorter is too common in ordinary text
_CERTAIN_VALUE_CHARS = 20  # a value of this length is a secret whatever its characters
_MAX_SECRET_CHARS = 4_096  # held back at the end of an unfinished text
_MAX_KEY_FILE_CHARS = 32_768  # held back of a private key in PEM
_CONTEXT_CHARS = 200  # before a secret, where its name may be
_MIN_RUN_CHARS = 16  # every known shape has a run of this many letters, digits, underscores and dashes


class _Rule(NamedTuple):
    """Every match contains one of `hints`. Patterns start with a literal where possible: Python finds it fast."""

    hints: tuple[str, ...]
    source: str
    replacement: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a text has one of the hints: all of them would slow down every start."""
        return _compile(self.source)


_compile = cache(re.compile)


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
    """In `template`, `{}` is the marker; the rest is kept from the match."""
    return _Rule(hints, pattern, template.format(f"{_MARKER_START}{kind}]"))


def _prefix_rule(kind: str, prefix: str, rest: str) -> _Rule:
    """A token that begins with a fixed prefix, not in the middle of a longer word."""
    return _rule(kind, (prefix,), f"{re.escape(prefix)}(?<![A-Za-z0-9]{re.escape(prefix)}){rest}")


_RULES = (
    _rule("private key", ("PRIVATE KEY",), _PEM),
    _prefix_rule("GitHub token", "ghp_", "[A-Za-z0-9]{20,}"),
    _prefix_rule("GitHub token", "gho_", "[A-Za-z0-9]{20,}"),
    _prefix_rule("GitHub token", "ghu_", "[A-Za-z0-9]{20,}"),
    _prefix_rule("GitHub token", "ghs_", "[A-Za-z0-9]{20,}"),
    _prefix_rule("GitHub token", "ghr_", "[A-Za-z0-9]{20,}"),
    _prefix_rule("GitHub token", "github_pat_", "[A-Za-z0-9_]{20,}"),
    _prefix_rule("GitLab token", "glpat-", "[A-Za-z0-9_-]{16,}"),
    _prefix_rule("GitLab token", "gldt-", "[A-Za-z0-9_-]{16,}"),
    _prefix_rule("GitLab token", "glrt-", "[A-Za-z0-9_-]{16,}"),
    _prefix_rule("GitLab token", "glcbt-", "[A-Za-z0-9_-]{16,}"),
    _prefix_rule("Anthropic key", "sk-ant-", "[A-Za-z0-9_-]{16,}"),
    _prefix_rule("API key", "sk-", "(?:proj|svcacct|admin|or-v1|lf)-[A-Za-z0-9_-]{20,}"),
    _prefix_rule("API key", "sk-", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}(?![A-Za-z0-9_-])"),
    _prefix_rule("Groq key", "gsk_", "[A-Za-z0-9]{30,}"),
    _prefix_rule("AWS access key", "AKIA", "[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _prefix_rule("AWS access key", "ASIA", "[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _prefix_rule("Slack token", "xox", r"[abeoprs][.-](?=[A-Za-z-]*\d)[A-Za-z0-9.-]{12,}"),
    _prefix_rule("Slack token", "xapp-", r"\d-[A-Za-z0-9-]{16,}"),
    _prefix_rule("Google key", "AIza", "[0-9A-Za-z_-]{35}(?![A-Za-z0-9_-])"),
    _prefix_rule("Google token", "ya29.", "[0-9A-Za-z_-]{20,}"),
    _prefix_rule("Google secret", "GOCSPX-", "[0-9A-Za-z_-]{20,}"),
    _prefix_rule("JSON web token", "eyJ", r"[A-Za-z0-9_-]{13,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _prefix_rule("npm token", "npm_", "[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _prefix_rule("PyPI token", "pypi-", "AgE[A-Za-z0-9_-]{30,}"),
    _prefix_rule("Stripe key", "sk_live_", "[A-Za-z0-9]{16,}"),
    _prefix_rule("Stripe key", "sk_test_", "[A-Za-z0-9]{16,}"),
    _prefix_rule("Stripe key", "rk_live_", "[A-Za-z0-9]{16,}"),
    _prefix_rule("Stripe key", "rk_test_", "[A-Za-z0-9]{16,}"),
    _prefix_rule("Stripe secret", "whsec_", "[A-Za-z0-9+/=]{24,}"),
    _prefix_rule("Hugging Face token", "hf_", r"(?=[A-Za-z]*[A-Z])[A-Za-z0-9]{30,}"),
    _prefix_rule("Docker token", "dckr_pat_", "[A-Za-z0-9_-]{20,}"),
    _prefix_rule("SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
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
_LONG_RUN = b"x" * _MIN_RUN_CHARS
# Literals of the rules, in a long run or next to one.
_IN_RUN = re.compile(
    rb"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt)-|sk-|gsk_|AKIA|ASIA|xox|xapp-|AIza|GOCSPX-|eyJ|npm_"
    rb"|pypi-|[rs]k_(?:live|test)_|whsec_|hf_|dckr_pat_)"
)
_FIRST_TWO = frozenset(b"gh gi gl gs sk rk AK AS AI xo xa GO ey np py wh hf dc".split())  # of the literals above
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
_PREFIXES = tuple(rule.hints[0] for rule in _RULES if rule.source.startswith(re.escape(rule.hints[0])))
_NAMES = ("authorization", "bearer", "basic", "token", "secretaccesskey", "secret_access_key", "aws_secret_access_key")
_CONTEXT = re.compile(rf"(?:(?:{'|'.join(_NAMES)})[\"'\s:=]*)+$", re.IGNORECASE)
_KEY_FILE = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?!.*-----END )", re.DOTALL)
_KEY_FILE_START = re.compile(r"-----(?:B(?:E(?:G(?:I(?:N(?: [A-Z0-9 ]*-{0,4})?)?)?)?)?)?$")


class Redactor:
    """Removes secrets from text. `values` are the user's own secrets, by the name to show for each."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        found = {value: name for name, value in (values or {}).items() if _is_distinctive(value)}
        self._values = [(value, f"{_MARKER_START}{found[value]}]") for value in sorted(found, key=len, reverse=True)]
        forms = {form for value in found for form in (value, _as_json(value))}
        encoded = [form.encode(errors="surrogateescape") for form in forms]
        self._literals = (*_BESIDE_RUN, *(form for form in encoded if _has_long_run(form)))
        self._short_forms = [form for form in encoded if not _has_long_run(form)]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Redactor":
        """A redactor for the values of all secret variables, whether an agent gets them or not."""
        return cls({name: value for name, value in environment.items() if is_secret_name(name, value)})

    def redact_text(self, text: str) -> str:
        """The text without secrets; the same object when there is none."""
        if len(text) < _MIN_VALUE_CHARS or not self.may_hold_secret(_encode_lossy(text)):
            return text
        return self._redact(text)

    def redact_json(self, data: msgspec.Raw) -> msgspec.Raw:
        """JSON without secrets in its strings; the same object when there is none."""
        encoded = bytes(data)
        if len(encoded) < _MIN_VALUE_CHARS or not self.may_hold_secret(encoded):
            return data
        try:
            found = msgspec.json.decode(data)
            clean = self.redact_data(found)
        except DECODE_ERRORS:  # half of a surrogate pair, as in cut text: redact the JSON as text
            text = self._redact(encoded.decode(errors="surrogateescape")).encode(errors="surrogateescape")
            return msgspec.Raw(text) if is_json(text) else data
        return data if clean is found else msgspec.Raw(msgspec.json.encode(clean))

    def redact_data(self, value: Any, skipped: Collection[str] = ()) -> Any:
        """The data without secrets in its strings; the same object when there is none. Ignores `skipped` keys."""
        match value:
            case str():
                return self.redact_text(value)
            case list():
                items = [self.redact_data(item, skipped) for item in value]
                return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
            case dict():
                fields = {key: old if key in skipped else self.redact_data(old, skipped) for key, old in value.items()}
                return fields if any(fields[key] is not old for key, old in value.items()) else value
            case _:
                return value

    def may_hold_secret(self, data: bytes) -> bool:
        """A cheap test; False only for data without a secret."""
        if b"@" in data and b"://" in data:
            return True
        for form in self._short_forms:
            if form in data:
                return True
        shape = data.translate(_SHAPE)
        return _LONG_RUN in shape and self._is_suspicious(data, shape)

    def _is_suspicious(self, data: bytes, shape: bytes) -> bool:
        """`may_hold_secret` for data with long runs."""
        for literal in self._literals:
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

    def value_spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """The positions of the values in data, plain or JSON-encoded. Not from the middle of an escape."""
        for form in (*self._short_forms, *self._literals[len(_BESIDE_RUN) :]):
            start = data.find(form)
            while start >= 0:
                if data[start - 1 : start] != b"\\":
                    yield start, start + len(form)
                start = data.find(form, start + len(form))

    def safe_length(self, text: str) -> int:
        """How much of an unfinished text can be recorded now: the rest may be the start of a secret."""
        word = _last_word(text)
        before = len(text) - len(word)
        end = before if _may_begin_secret(word) else len(text)
        if (context := _CONTEXT.search(text, max(0, before - _CONTEXT_CHARS), before)) is not None:
            end = context.start()
        for value, _ in self._values:
            end = min(end, len(text) - _overlap(text, value))
        unfinished = _KEY_FILE.search(text, max(0, len(text) - _MAX_KEY_FILE_CHARS))
        if unfinished is None:
            unfinished = _KEY_FILE_START.search(text, max(0, len(text) - _CONTEXT_CHARS))
        if unfinished is not None:
            end = min(end, unfinished.start())
        for start, stop in self._secret_spans(text):
            if start < end < stop:
                end = start
        return end

    def _redact(self, text: str) -> str:
        for value, mark in self._values:
            if value in text:
                text = text.replace(value, mark)
        for rule in _RULES:
            if any(hint in text for hint in rule.hints):
                text = rule.pattern.sub(rule.replacement, text)
        return text

    def _secret_spans(self, text: str) -> Iterator[tuple[int, int]]:
        if not self.may_hold_secret(_encode_lossy(text)):
            return
        for value, _ in self._values:
            start = text.find(value)
            while start >= 0:
                yield start, start + len(value)
                start = text.find(value, start + len(value))
        for rule in _RULES:
            if any(hint in text for hint in rule.hints):
                yield from (found.span() for found in rule.pattern.finditer(text))


SHAPES_ONLY_REDACTOR = Redactor()


def is_redacted(text: str) -> bool:
    return _MARKER_START in text


def with_redaction_notice(text: str) -> str:
    """A prompt taken from the log, with an explanation of the markers in it."""
    return f"{text}\n\n{_NOTICE}" if is_redacted(text) and _NOTICE not in text else text


def _is_distinctive(value: str) -> bool:
    """Whether a value can be searched for in any text: ordinary words, numbers and paths would match everywhere."""
    value = value.strip()
    if len(value) < _MIN_VALUE_CHARS or value.startswith(("/", "~", "./", "http://", "https://")) or is_redacted(value):
        return False
    if len(value) >= _CERTAIN_VALUE_CHARS:
        return True
    kinds = (str.islower, str.isupper, str.isdigit, lambda character: not character.isalnum())
    present = sum(any(kind(character) for character in value) for kind in kinds)
    return present >= 2 and not value.isalpha()  # noqa: PLR2004 - a mixture


def _encode_lossy(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return text.encode(errors="replace")


def _as_json(value: str) -> str:
    return msgspec.json.encode(value.encode(errors="replace").decode()).decode()[1:-1]


def _has_long_run(form: bytes) -> bool:
    return _LONG_RUN in form.translate(_SHAPE)


def _last_word(text: str) -> str:
    """The text after the last white space, up to the length of a secret."""
    end = text[-_MAX_SECRET_CHARS:]
    return end[len(end) - len(end.split()[-1]) :] if end and not end[-1].isspace() else ""


def _may_begin_secret(word: str) -> bool:
    """False for a plain word. A word with digits or signs may become a token or a URL with a password."""
    plain = word.strip(".,;!?()[]\"'*`")
    if not plain.isalpha():
        return bool(plain)
    known = any(plain.startswith(prefix) or prefix.startswith(plain) for prefix in _PREFIXES)
    return known or any(name.startswith(plain.lower()) for name in _NAMES)


def _overlap(text: str, value: str) -> int:
    """The number of characters at the end of the text that start the value."""
    most = min(len(text), len(value) - 1)
    return next((length for length in range(most, 0, -1) if text.endswith(value[:length])), 0)
