"""What a vendor's wire is made of: a request read, an answer in one piece or in pieces, an error."""

import datetime as dt
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from tests.support.model_server.script import Answer, Fault
from tests.support.model_server.seen import Seen


class Refused(msgspec.Struct, frozen=True):
    status: int
    body: Any
    headers: dict[str, str]


class Wire(Protocol):
    def read(self, body: Any, headers: dict[str, str], model: str, *, streamed: bool) -> Seen: ...

    def whole(self, seen: Seen, answer: Answer, number: int) -> Any: ...

    def pieces(self, seen: Seen, answer: Answer, number: int) -> Iterator[bytes]: ...

    def refusal(self, fault: Fault, number: int) -> Refused: ...

    def refusal_in_stream(self, fault: Fault, number: int) -> bytes: ...


def event(name: str | None, data: Any) -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


def cut(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def arguments(value: object) -> str:
    return msgspec.json.encode(value).decode()


def rfc3339(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def retry_header(fault: Fault) -> dict[str, str]:
    return {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
