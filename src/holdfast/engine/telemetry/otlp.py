"""Spans and usage as OTLP, by the official protobuf types. Imported only where something is exported."""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, NumberDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from holdfast import __version__
from holdfast.core.telemetry.spans import OPEN, Span, TraceState, UsageTotal
from holdfast.core.text.moment import parse_moment

_ID_FIELDS = ("traceId", "spanId", "parentSpanId")
_NS = 1_000_000_000


def encode_spans(trace_id: str, spans: Iterable[Span]) -> bytes:
    return bytes(_trace_request(trace_id, spans).SerializeToString())


def spans_as_json_line(trace_id: str, spans: Iterable[Span]) -> bytes:
    """A line of an OTLP file, which the collector's file receiver reads. Ids are in hexadecimal there."""
    data = MessageToDict(_trace_request(trace_id, spans))
    return json.dumps(_with_hex_ids(data), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def encode_usage(run_id: str, state: TraceState) -> bytes:
    """What was used since the run began: cumulative, so that nothing counts twice when it is sent again."""
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add(resource=_resource()).scope_metrics.add(scope=_scope())
    start, now = _nanoseconds(state.began), _nanoseconds(state.last)
    tokens, cost = scope.metrics.add(), scope.metrics.add()
    tokens.name, tokens.unit, tokens.description = "gen_ai.client.token.usage", "{token}", "Tokens that agents used"
    cost.name, cost.unit, cost.description = "holdfast.cost.usd", "{USD}", "What agents cost, in US dollars"
    for metric in (tokens, cost):
        metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        metric.sum.is_monotonic = True
    for total in state.usage.values():
        for kind, count in (("input", total.input_tokens), ("output", total.output_tokens)):
            labels = [*_labels(run_id, total), _attribute("gen_ai.token.type", kind)]
            tokens.sum.data_points.append(
                NumberDataPoint(attributes=labels, start_time_unix_nano=start, time_unix_nano=now, as_int=count)
            )
        for is_estimate, dollars in ((False, total.dollars), (True, total.estimate)):
            if dollars:
                labels = [*_labels(run_id, total), _attribute("holdfast.cost.estimated", is_estimate)]
                cost.sum.data_points.append(
                    NumberDataPoint(
                        attributes=labels, start_time_unix_nano=start, time_unix_nano=now, as_double=dollars
                    )
                )
    return bytes(request.SerializeToString())


def _labels(run_id: str, total: UsageTotal) -> Sequence[KeyValue]:
    return [
        _attribute("holdfast.run.id", run_id),
        _attribute("gen_ai.agent.name", total.agent),
        _attribute("gen_ai.request.model", total.model),
    ]


def _trace_request(trace_id: str, spans: Iterable[Span]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add(resource=_resource()).scope_spans.add(scope=_scope())
    scope.spans.extend(_encode_span(trace_id, span) for span in spans)
    return request


def _encode_span(trace_id: str, span: Span) -> OtlpSpan:
    finished = Status.STATUS_CODE_UNSET if span.attributes.get(OPEN) else Status.STATUS_CODE_OK
    code = Status.STATUS_CODE_ERROR if span.error is not None else finished
    return OtlpSpan(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id) if span.parent_id is not None else b"",
        name=span.name,
        kind=OtlpSpan.SPAN_KIND_INTERNAL,
        start_time_unix_nano=_nanoseconds(span.start),
        end_time_unix_nano=_nanoseconds(span.end),
        attributes=[_attribute(name, value) for name, value in span.attributes.items()],
        status=Status(code=code, message=span.error or ""),
    )


def _attribute(name: str, value: str | float) -> KeyValue:
    match value:
        case bool():
            return KeyValue(key=name, value=AnyValue(bool_value=value))
        case int():
            return KeyValue(key=name, value=AnyValue(int_value=value))
        case float():
            return KeyValue(key=name, value=AnyValue(double_value=value))
        case _:
            return KeyValue(key=name, value=AnyValue(string_value=value))


def _resource() -> Resource:
    return Resource(attributes=[_attribute("service.name", "holdfast"), _attribute("service.version", __version__)])


def _scope() -> InstrumentationScope:
    return InstrumentationScope(name="holdfast", version=__version__)


def _nanoseconds(moment: str | None) -> int:
    return round((parse_moment(moment) or 0.0) * 1000) * (_NS // 1000)


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64decode(item).hex() if key in _ID_FIELDS and isinstance(item, str) else _with_hex_ids(item)
        for key, item in value.items()
    }
