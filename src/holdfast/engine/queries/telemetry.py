"""The spans of a run, from its log: the same ids as a live export."""

from collections.abc import AsyncIterator
from typing import BinaryIO, NamedTuple

from holdfast.core.config.operations import TelemetrySettings
from holdfast.core.telemetry.spans import Span, SpanBuilder
from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.engine.http_post import PostFailed
from holdfast.engine.telemetry.collector import Rejected, find_collector, require_packages
from holdfast.leaf.errors import HoldfastError

_MAX_SPANS = 512


class Exported(NamedTuple):
    endpoint: str
    spans: int


async def write_spans(home: Home, run_id: str, out: BinaryIO) -> None:
    """Write the spans as an OTLP file: JSON, a line for each batch."""
    require_packages()
    from holdfast.engine.telemetry.otlp import spans_as_json_line  # noqa: PLC0415 - heavy

    builder = _builder(home, run_id)
    async for spans in _batches(home, run_id, builder):
        out.write(spans_as_json_line(builder.trace_id, spans))


async def send_spans(home: Home, run_id: str, endpoint: str | None = None) -> Exported:
    """Send the spans and the usage of a run to a collector."""
    require_packages()
    from holdfast.engine.telemetry.otlp import encode_spans, encode_usage  # noqa: PLC0415 - heavy

    settings = load_config(home=home).settings.telemetry
    chosen = TelemetrySettings(endpoint=endpoint, content=settings.content) if endpoint is not None else settings
    collector, builder, count = find_collector(chosen), _builder(home, run_id), 0
    try:
        async for spans in _batches(home, run_id, builder):
            await collector.send_traces(encode_spans(builder.trace_id, spans))
            count += len(spans)
        await collector.send_metrics(encode_usage(run_id, builder.state))
    except (PostFailed, Rejected) as error:
        raise HoldfastError(f"{collector.base}: {error}; {count} spans were sent") from None
    return Exported(collector.base, count)


def _builder(home: Home, run_id: str) -> SpanBuilder:
    return SpanBuilder(run_id, content=load_config(home=home).settings.telemetry.content)


async def _batches(home: Home, run_id: str, builder: SpanBuilder) -> AsyncIterator[list[Span]]:
    waiting: list[Span] = []
    async for batch in home.store.log(run_id).read():
        waiting += builder.feed(batch.data)
        while len(waiting) >= _MAX_SPANS:
            yield waiting[:_MAX_SPANS]
            del waiting[:_MAX_SPANS]
    if not home.is_owned(run_id):
        waiting += builder.finish()
    if waiting:
        yield waiting
