"""Removes secrets from stderr, because a detached runner writes it to `runner.log`."""

import os
import sys
from typing import Any, TextIO

from holdfast.core.redaction.redaction import Redactor


class RedactingStream:
    """A text stream that removes secrets from its output."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor

    def write(self, text: str) -> int:
        return self._stream.write(self._redactor.redact_text(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def redact_stderr() -> None:
    sys.stderr = RedactingStream(sys.stderr, Redactor.from_environment(os.environ))
