"""Requests made from openapi.json, right and wrong in every part: no 500, no traceback, and nothing is acted on."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scripts.api import SCHEMA
from tests.cli.runs import make_run, said, tasks
from tests.support.memory import in_memory
from tests.web.server import Answer, Server

RUN = "fuzzed-abcdef"
KNOWN = {"run": RUN, "conversation": "c", "agent": "claude", "old": "0" * 40, "new": "f" * 40}
WORDS = (
    "",
    "x",
    "..",
    "../../etc/passwd",
    "\0",
    "-rf",
    "ü😀",
    "%s%n",
    "a" * 5_000,
    "null",
    "'\"<img>",
    "\u2028",
    RUN,
    "1",
)
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**70), 1e308, 0.5)
STATUSES = {200, 202, 400, 403, 404, 405, 409, 413, 415, 422}
# They would do what is asked: start an agent of this machine, or an editor.
LEFT_OUT = {"probe_one_agent", "open_in_editor"}
CASES = 2  # of each endpoint; the long test has more


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Server]:
    with in_memory() as folder:
        home = str(Path(folder, "home"))
        Path(home).mkdir()
        make_run(home, RUN, *tasks(2), said("hello"))
        with Server.start(home, "--no-watch", environment={"HOME": folder}) as server:
            yield server


class Fuzzer:
    """Makes requests from the document: each part is right, of another type, or nonsense."""

    def __init__(self, document: dict[str, Any], seed: int) -> None:
        self._shapes = document["components"]["schemas"]
        self._random = random.Random(seed)

    def path(self, template: str, operation: dict[str, Any]) -> str:
        query: list[str] = []
        for parameter in operation["parameters"]:
            name = parameter["name"]
            if parameter["in"] == "path":
                value = KNOWN.get(name, "x") if self._random.random() < 0.7 else self._random.choice(WORDS)
                template = template.replace(f"{{{name}}}", quote(value, safe=""))
            elif parameter["in"] == "query" and self._random.random() < 0.7:
                query.append(f"{name}={quote(str(self.value(parameter['schema'])), safe='')}")
        return f"{template}?{'&'.join(query)}"

    def body(self, operation: dict[str, Any]) -> bytes:
        if self._random.random() < 0.15:
            return self._random.choice((b"", b"{", b"[]", b"\xff\xfe", b'"x"', b"[" * 50_000, b"null", b'{"a":1}'))
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        return json.dumps(self.value(schema)).encode(errors="replace")

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        if self._random.random() < 0.12 or depth > 5:
            return self._random.choice((None, True, {}, [], *NUMBERS, *WORDS))
        if "$ref" in schema:
            return self.value(self._shapes[schema["$ref"].rpartition("/")[2]], depth)
        if "anyOf" in schema:
            return self.value(self._random.choice(schema["anyOf"]), depth)
        match schema.get("type"):
            case "object":
                given = schema.get("properties", {})
                return {
                    name: self.value(kind, depth + 1) for name, kind in given.items() if self._random.random() < 0.85
                }
            case "array":
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(self._random.randrange(3))]
            case "integer":
                return self._random.choice((0, 1, -1, 10**6, 2**70))
            case "number":
                return self._random.choice(NUMBERS)
            case "boolean":
                return self._random.choice((True, False))
            case "null":
                return None
            case _:
                return self._random.choice(schema.get("enum", WORDS))


def bombard(server: Server, seed: int, cases: int) -> None:
    document = json.loads(Path(SCHEMA).read_text(encoding="utf-8"))
    fuzzer = Fuzzer(document, seed)
    for template, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["operationId"] in LEFT_OUT or template.endswith("/stream"):
                continue
            for _ in range(cases):
                path = fuzzer.path(template, operation)
                body = fuzzer.body(operation) if method != "get" else None
                headers = {**server.bearer, **({"Content-Type": "application/json", "X-Holdfast": "1"} if body else {})}
                judge(f"seed {seed}: {method} {path} {body!r}", server.send(method.upper(), path, headers, body))


def judge(request: str, answer: Answer) -> None:
    assert answer.status in STATUSES, (request, answer)
    assert b"Traceback" not in answer.body, request
    assert b"a bug in Holdfast" not in answer.body, (request, answer.body)
    if answer.status >= 400:
        assert json.loads(answer.body)["error"], request


def snapshot(folder: str) -> set[str]:
    """All files besides those of the server and of messages."""
    found = {os.path.join(at, name) for at, _, names in os.walk(folder) for name in names}
    return {name for name in found if "/serve/" not in name and "catalog" not in name}


def test_no_request_is_a_bug(fuzzed: Server) -> None:
    """The run is what it was, but for messages; no runner was started, and nothing was written outside of the home."""
    before = fuzzed.get(f"/runs/{RUN}").json
    outside = snapshot(os.path.dirname(fuzzed.home)) - snapshot(fuzzed.home)
    bombard(fuzzed, 7, CASES)
    after = fuzzed.get(f"/runs/{RUN}").json
    assert (after["position"], after["owner"]) == (before["position"], None)
    assert snapshot(os.path.dirname(fuzzed.home)) - snapshot(fuzzed.home) - outside <= {f"{fuzzed.home}.config.toml"}


def test_without_the_token_no_request_does_anything(fuzzed: Server) -> None:
    document = json.loads(Path(SCHEMA).read_text(encoding="utf-8"))
    fuzzer = Fuzzer(document, 1)
    for template, methods in document["paths"].items():
        for method, operation in methods.items():
            body = fuzzer.body(operation) if method != "get" else None
            answer = fuzzed.send(method.upper(), fuzzer.path(template, operation), {"Host": "127.0.0.1"}, body)
            assert answer.status == 403, (method, template, answer)
    for method in ("PUT", "PATCH", "OPTIONS", "TRACE", "HEAD", "FOO"):
        assert fuzzed.send(method, "/api/v1/runs", {}).status == 403


@pytest.mark.torture
def test_no_request_of_many_is_a_bug(fuzzed: Server) -> None:
    for seed in range(40):
        bombard(fuzzed, seed, 5)
    assert fuzzed.get("/runs").status == 200
