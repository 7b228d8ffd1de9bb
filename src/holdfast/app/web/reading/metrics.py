"""`/metrics`: the runs of this home and the server itself, in the text format of Prometheus."""

import os
import resource
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast import __version__
from holdfast.app.web.shapes.board import RunRow
from holdfast.app.web.site import Site
from holdfast.core.text.moment import parse_moment

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Metric(NamedTuple):
    """One metric: a value for each set of labels."""

    name: str
    kind: str
    about: str
    values: Iterable[tuple[Mapping[str, str], float]]


async def metrics_text(site: Site) -> str:
    rows = (await site.board.refreshed()).runs
    return "".join(_lines([*_of_runs(rows), *_of_server(site)]))


def _of_runs(rows: list[RunRow]) -> list[Metric]:
    columns = Counter(row.column for row in rows)
    return [
        Metric(
            "holdfast_runs",
            "gauge",
            "Runs by status.",
            [({"status": name}, count) for name, count in sorted(Counter(row.status for row in rows).items())],
        ),
        Metric(
            "holdfast_runs_by_column",
            "gauge",
            "Runs by the column of the board: needs (a person), work, rest, done.",
            [({"column": name}, columns[name]) for name in ("needs", "work", "rest", "done")],
        ),
        _single("holdfast_decisions_waiting", "gauge", "Decisions that wait for a person.", sum(r.needs for r in rows)),
        _single("holdfast_tasks", "gauge", "Tasks of all runs.", sum(row.tasks for row in rows)),
        _single("holdfast_tasks_done", "gauge", "Completed tasks.", sum(row.tasks_done for row in rows)),
        _single("holdfast_sessions", "gauge", "Sessions of all runs.", sum(row.sessions for row in rows)),
        _single("holdfast_events", "gauge", "Lines in the logs of all runs.", sum(row.events for row in rows)),
        _single("holdfast_tokens", "gauge", "Tokens that agents reported.", sum(row.tokens for row in rows)),
        _single(
            "holdfast_dollars",
            "gauge",
            "Costs that agents reported. See holdfast_conversations_unpriced.",
            sum(row.dollars or 0.0 for row in rows),
        ),
        _single(
            "holdfast_conversations_unpriced",
            "gauge",
            "Conversations whose agents reported no cost: what they spent is unknown.",
            sum(row.unpriced for row in rows),
        ),
    ]


def _of_server(site: Site) -> list[Metric]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return [
        Metric("holdfast_build_info", "gauge", "The version of the server.", [({"version": __version__}, 1)]),
        _single("holdfast_server_supervising", "gauge", "1 if it resumes runs.", int(site.is_supervising)),
        _single("holdfast_server_clients", "gauge", "Open pages.", site.board.listener_count),
        _single("holdfast_server_viewers", "gauge", "Followed runs, by client.", site.feeds.viewer_count),
        _single("process_start_time_seconds", "gauge", "Start of the server.", parse_moment(site.started) or 0),
        _single("process_cpu_seconds_total", "counter", "CPU time.", usage.ru_utime + usage.ru_stime),
        _single("process_resident_memory_bytes", "gauge", "Resident memory.", _resident_bytes()),
        _single("process_open_fds", "gauge", "Open files.", len(os.listdir("/proc/self/fd"))),
    ]


def _single(name: str, kind: str, about: str, value: float) -> Metric:
    return Metric(name, kind, about, [({}, value)])


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE_BYTES


def _lines(metrics: Iterable[Metric]) -> Iterator[str]:
    for metric in metrics:
        yield f"# HELP {metric.name} {metric.about}\n# TYPE {metric.name} {metric.kind}\n"
        for labels, value in metric.values:
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{metric.name}{{{named}}} {value}\n" if named else f"{metric.name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
