"""Spans and usage by OTLP, to a receiver that decodes them with the official types: live, after a death, afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.cli.test_run_watched import cut_off
from tests.support.cli_stage import EVALUATE, SUBMIT, Stage, worker
from tests.support.http_receiver import Receiver, receiving

WROTE = {"write": {"path": "a.txt", "text": "a\n", "via": "client"}}
SPENT = {"usage": {"used": 1200, "size": 200_000, "cost": 0.75}}
Span = dict[str, Any]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def live(receiver: Receiver, *more: str) -> tuple[str, ...]:
    return ("--set", "telemetry.enabled=true", "--set", f'telemetry.endpoint="{receiver.url}"', *more)


def value_of(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def spans_in(receiver: Receiver) -> dict[str, Span]:
    """The spans that arrived, by id; one that came twice must be the same."""
    found: dict[str, Span] = {}
    for request in receiver.requests:
        if request.path != "/v1/traces":
            continue
        assert request.headers["content-type"] == "application/x-protobuf"
        message = ExportTraceServiceRequest.FromString(request.body)
        for span in (each for part in message.resource_spans for scope in part.scope_spans for each in scope.spans):
            known = {
                "name": span.name,
                "trace": span.trace_id.hex(),
                "parent": span.parent_span_id.hex() or None,
                "attributes": {pair.key: value_of(pair.value) for pair in span.attributes},
                "start": span.start_time_unix_nano,
                "end": span.end_time_unix_nano,
                "failed": span.status.code == span.status.STATUS_CODE_ERROR,
            }
            assert found.setdefault(span.span_id.hex(), known) == known
    return found


def usage_in(receiver: Receiver) -> dict[tuple[str, str], float]:
    """The newest value of each sum, by metric and kind."""
    found: dict[tuple[str, str], float] = {}
    for request in receiver.requests:
        if request.path == "/v1/metrics":
            message = ExportMetricsServiceRequest.FromString(request.body)
            for metric in (m for part in message.resource_metrics for s in part.scope_metrics for m in s.metrics):
                for point in metric.sum.data_points:
                    labels = {pair.key: value_of(pair.value) for pair in point.attributes}
                    kind = str(labels.get("gen_ai.token.type", ""))
                    found[metric.name, kind] = point.as_double or point.as_int
    return found


def lineage(spans: dict[str, Span], span_id: str | None) -> list[str]:
    names = []
    while span_id is not None:
        names.append(spans[span_id]["name"])
        span_id = spans[span_id]["parent"]
    return names[::-1]


def test_a_run_is_exported_while_it_works(stage: Stage, receiver: Receiver) -> None:
    agent = stage.book(worker(WROTE, SPENT, SUBMIT), EVALUATE)
    options = ("--workflow", "waves", "--agent", agent, "--set", "validators.detect=false")
    run = stage.run(*options, *live(receiver), stage.tasks("A"))
    spans = spans_in(receiver)
    paths = {" / ".join(lineage(spans, span_id)) for span_id in spans}
    assert {"run waves", "run waves / task A", "run waves / task A / invoke_agent playbook"} <= paths
    assert any(path.startswith("run waves / task A / invoke_agent playbook / execute_tool") for path in paths)
    assert not any(span["failed"] for span in spans.values())
    events = stage.events(run)
    assert {event["trace_id"] for event in events} == {span["trace"] for span in spans.values()}
    turn = next(event for event in events if event["type"] == "turn.started")
    attributes = spans[turn["span_id"]]["attributes"]
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.conversation.id"] == turn["data"]["conversation"]
    assert (attributes["gen_ai.usage.input_tokens"], attributes["holdfast.cost.usd"]) == (1200, 0.75)
    assert usage_in(receiver) == {
        ("gen_ai.client.token.usage", "input"): 1200,
        ("gen_ai.client.token.usage", "output"): 0,
        ("holdfast.cost.usd", ""): 0.75,
    }
    sent = b"".join(request.body for request in receiver.requests)
    assert b"You are the worker" not in sent
    assert b"a.txt" not in sent


def test_content_is_exported_only_if_asked_for(stage: Stage, receiver: Receiver) -> None:
    agent = stage.book(worker(WROTE, {"say": "I wrote it"}))
    stage.run("write the file", "--agent", agent, *live(receiver, "--set", "telemetry.content=true"))
    turns = [span for span in spans_in(receiver).values() if span["name"].startswith("invoke_agent")]
    assert "write the file" in turns[0]["attributes"]["gen_ai.input.messages"]
    assert turns[0]["attributes"]["gen_ai.output.messages"] == "I wrote it"


def test_spans_that_a_death_cut_off_are_ended_by_the_resume(stage: Stage, receiver: Receiver) -> None:
    run = cut_off(stage, *live(receiver), once=True)
    stage.resume(run)
    spans = spans_in(receiver)
    (interrupted,) = stage.events(run, "turn.interrupted")
    span = spans[interrupted["span_id"]]
    assert span["failed"]
    assert span["attributes"]["gen_ai.response.finish_reason"] == "interrupted"
    assert span["start"] < span["end"]
    assert "run solo" in {each["name"] for each in spans.values()}


def test_export_afterwards_has_the_same_spans(stage: Stage, receiver: Receiver) -> None:
    run = stage.run("write", "--agent", stage.book(worker(WROTE, SPENT)), *live(receiver))
    before = spans_in(receiver)
    usage = usage_in(receiver)
    receiver.requests.clear()
    sent = stage.holdfast("export", run, "--otlp", "--endpoint", receiver.url, "--json").object
    assert sent == {"run": run, "endpoint": receiver.url, "spans": len(before)}
    assert (spans_in(receiver), usage_in(receiver)) == (before, usage)

    stage.holdfast("export", run, "--otlp", "--file", "spans.jsonl")
    lines = Path(stage.project.path, "spans.jsonl").read_text(encoding="utf-8").splitlines()
    written = [
        span
        for line in lines
        for part in json.loads(line)["resourceSpans"]
        for scope in part["scopeSpans"]
        for span in scope["spans"]
    ]
    assert {span["spanId"] for span in written} == before.keys()


def test_what_has_not_ended_is_exported_without_a_status(stage: Stage, receiver: Receiver) -> None:
    limited = {"error": {"code": -32603, "message": "usage limit reached, try again in 3 hours"}}
    stage.ended("run", "write", "--agent", stage.book(worker(WROTE, limited)), code=1)
    stage.holdfast("export", stage.only_run(), "--otlp", "--endpoint", receiver.url)
    requests = (ExportTraceServiceRequest.FromString(each.body) for each in receiver.requests if "traces" in each.path)
    spans = [s for each in requests for part in each.resource_spans for scope in part.scope_spans for s in scope.spans]
    codes = {span.name.partition(" ")[0]: span.status.code for span in spans}
    assert (codes["run"], codes["task"]) == (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_UNSET)
    assert (codes["invoke_agent"], codes["execute_tool"]) == (Status.STATUS_CODE_ERROR, Status.STATUS_CODE_OK)


def test_a_collector_that_is_away_or_hangs_holds_up_nothing(stage: Stage, receiver: Receiver) -> None:
    away = ("--set", "telemetry.enabled=true", "--set", 'telemetry.endpoint="http://127.0.0.1:9"')
    run = stage.run("write", "--agent", stage.book(worker(WROTE)), *away)
    assert stage.data(run, "error.encountered") == stage.data(run, "warning.logged") == []
    receiver.hangs = True
    other = stage.run("write", "--agent", stage.book(worker(WROTE)), *live(receiver))
    assert stage.data(other, "session.end")[-1]["reason"] == "all_done"


def test_what_a_session_could_not_send_the_next_one_sends(stage: Stage, receiver: Receiver) -> None:
    receiver.answers = [503] * 1000
    run = cut_off(stage, *live(receiver), once=True)
    receiver.answers.clear()
    receiver.requests.clear()
    stage.resume(run)
    live_ids = spans_in(receiver).keys()
    receiver.requests.clear()
    stage.holdfast("export", run, "--otlp", "--endpoint", receiver.url)
    assert live_ids == spans_in(receiver).keys()


def test_a_refused_export_says_so(stage: Stage, receiver: Receiver) -> None:
    run = stage.run("write", "--agent", stage.book(worker(WROTE)))
    receiver.answers = [400]
    assert "it answered 400" in stage.holdfast("export", run, "--otlp", "--endpoint", receiver.url, code=1).err
    assert "is not a URL" in stage.holdfast("export", run, "--otlp", "--endpoint", "nowhere", code=2).err


def test_a_plain_command_loads_nothing_of_opentelemetry() -> None:
    code = (
        "import sys; from holdfast.app.cli.main import main; main(['ls']); main(['run', '--help']);"
        "import holdfast.engine.commands.session;"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry', 'google.protobuf'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env={**os.environ})
