"""Keeps keys in the client that calls the model: out of tools, files and logs."""

import ctypes
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

# What a shell command needs, and what identifies its processes. Other variables must be named.
_ALLOWED_VARIABLE = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TERM|COLORTERM|TZ|TMPDIR|PWD|XDG_\w+|VIRTUAL_ENV|HOLDFAST_\w+"
    r"|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL)|PYTHON\w+|NODE_PATH|JAVA_HOME|GOPATH|GOROOT|CARGO_HOME|RUSTUP_HOME|CI"
)
_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE", re.IGNORECASE)
_MIN_SECRET_CHARS = 8  # shorter values are not keys, and would redact ordinary words
_REDACTED = "[redacted]"


class Secrets:
    """Values that must not be shown."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = sorted({value for value in values if len(value) >= _MIN_SECRET_CHARS}, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, _REDACTED)
        return text

    def redact_data(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the data without secrets in its strings."""
        text = json.dumps(value, ensure_ascii=False)
        if not self.contains_secret(text):
            return value
        clean: dict[str, Any] = json.loads(self.redact(text))
        return clean

    def contains_secret(self, text: str) -> bool:
        return any(value in text for value in self._values)


def take_from_environment(name: str) -> str | None:
    """Read a variable and delete it, so that children do not inherit it and /proc does not show it."""
    value = os.environ.get(name)
    if value is None:
        return None
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    place = libc.getenv(os.fsencode(name))
    if place:
        ctypes.memset(place, ord("-"), len(os.fsencode(value)))
    del os.environ[name]
    return value


def scrub_environment(
    environment: Mapping[str, str], passed_variables: Iterable[str], secrets: Secrets
) -> dict[str, str]:
    """Return the environment of a shell command. A key is not passed on even if its variable is named."""
    wanted = set(passed_variables)
    return {
        name: value
        for name, value in environment.items()
        if (name in wanted or (_ALLOWED_VARIABLE.fullmatch(name) and not _SECRET_VARIABLE.search(name)))
        and not secrets.contains_secret(value)
    }


class RedactingFormatter(logging.Formatter):
    def __init__(self, secrets: Secrets) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return self._secrets.redact(super().format(record))
