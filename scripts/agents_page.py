"""The measured part of docs/agents.md: a row for each agent, as `holdfast agents probe` stores it."""

import os
import platform
from collections.abc import Mapping

from holdfast.agents.registry import BUILT_IN
from holdfast.engine.agents.matrix import AgentMeasurement

_PAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "agents.md")
_BEGIN, _END = "<!-- measured by make test-agents -->\n", "<!-- end of what was measured -->\n"
_HEAD = (
    "agent",
    "version",
    "comes back by",
    "resume",
    "load",
    "fork",
    "list",
    "killed in mid-turn, it knows",
    "unknown session",
    "start",
    "memory",
)
_TOLD = {True: "yes", False: "**no**", None: "–"}
_KNOWS = {"all": "all of it", "earlier turns": "the turns before", "nothing": "**nothing**", None: "not measured"}


def write_page(rows: Mapping[str, AgentMeasurement]) -> None:
    with open(_PAGE, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin, f"{_PAGE} has no line {_BEGIN!r}"
    assert end, f"{_PAGE} has no line {_END!r}"
    with open(_PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{_BEGIN}\n{table(rows)}\n{_END}{after}")


def table(rows: Mapping[str, AgentMeasurement]) -> str:
    lines = [_HEAD, ("---",) * len(_HEAD), *(_cells(row) for _, row in sorted(rows.items()))]
    days = sorted({row.when[:10] for row in rows.values()})
    where = f"Measured {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else "Not measured yet"
    load = os.getloadavg()[2]
    machine = f"{os.cpu_count()} cores ({platform.system()} {platform.machine()})"
    about = f"{where}, on {machine} with {load:.0f} processes ready to run over the last 15 minutes.\n"
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{about}"


def _cells(row: AgentMeasurement) -> tuple[str, ...]:
    known = BUILT_IN.get(row.agent)
    return (
        known.title if known is not None else row.agent,
        row.version or "",
        row.strategy,
        _TOLD[row.resume],
        _TOLD[row.load],
        _TOLD[row.fork],
        _TOLD[row.sessions],
        _KNOWS[row.after_cut],
        row.unknown_session or "–",
        f"{row.start_ms / 1000:.1f} s" if row.start_ms is not None else "",
        f"{row.memory_mb} MB" if row.memory_mb is not None else "",
    )
