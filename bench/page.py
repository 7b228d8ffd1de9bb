"""The page of `holdfast serve` in Chromium: opening a long run, a thousand events a second, memory, and its size.

As a program it appends events to a run: `python -m bench.page HOME COUNT RATE`, and prints one line when all are
written. CPU is that of the page's main thread (`threadTicks`) and of the server's process; waiting costs nothing.
"""

import asyncio
import gzip
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from bench.figure import Figure, Target, number, spread
from bench.homes import RUN, long_run
from bench.places import ROOT, scratch
from bench.progress import say
from bench.workload import Size
from holdfast.core.events.conversation import ConversationOpened, MessageRecorded, ToolCalled, ToolReturned
from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.leaf.files.disk import Disk
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.web.browser import browser_options, browser_path, sign_in
from tests.web.server import Server
from web.build import BUNDLE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page, Response

SHORT, LONG = Size(tasks=20, events=2_000), Size(tasks=20, events=100_000)
RATE = 1_000  # events per second
MAX_ROWS = 5_000  # that the page keeps
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE_MS = 120_000


class Tab(NamedTuple):
    page: "Page"
    session: "CDPSession"


def measure(*, quick: bool) -> list[Figure]:
    figures = _sizes() if (BUNDLE / "index.html").exists() else []
    missing = [
        name
        for name, there in (
            ("the built page (make web)", bool(figures)),
            ("playwright (make browser)", find_spec("playwright") is not None),
            ("chromium (make browser)", browser_path() is not None),
        )
        if not there
    ]
    if missing:
        say(f"THE PAGE IS NOT MEASURED: there is no {', no '.join(missing)}")
        return figures
    short, long = long_run(SHORT), long_run(LONG)
    with scratch() as folder:
        asyncio.run(_make_streamed(folder))
        with _browser() as browser:
            return [
                *figures,
                *_opening(browser, short.home, long.home, rounds=3 if quick else 15),
                *_streaming(browser, folder, seconds=3 if quick else 20, flood=20_000 if quick else 200_000),
            ]


# the size of what is loaded


def _sizes() -> list[Figure]:
    def packed(paths: list[Path]) -> float:
        return sum(len(gzip.compress(path.read_bytes())) for path in paths) / 1000

    index = (BUNDLE / "index.html").read_text(encoding="utf-8")
    entry = [BUNDLE / name.lstrip("/") for name in re.findall(r'(?:src|href)="(/assets/[^"]+\.js)"', index)]
    everything = [path for path in BUNDLE.rglob("*") if path.is_file()]
    return [
        Figure(
            name="page-entry",
            what="JavaScript that the board loads",
            against="compressed",
            spread=spread([packed(entry)]),
            unit="kB",
            target=Target("≤", 120),
        ),
        Figure(
            name="page-bundle",
            what="all files of the page",
            against="compressed",
            spread=spread([packed(everything)]),
            unit="kB",
            target=Target("≤", 2_000),
            note=f"{len(everything)} files, loaded when they are needed",
        ),
    ]


# opening a run


class Opened(NamedTuple):
    cpu: float  # seconds, of page and server
    requests: int
    kilobytes: float


def _opening(browser: "Browser", short: str, long: str, rounds: int) -> list[Figure]:
    with Server.start(short, "--no-watch", page=True) as one, Server.start(long, "--no-watch", page=True) as other:
        for server in (one, other):
            _open(browser, server)  # warm-up
        pairs = [(_open(browser, one), _open(browser, other)) for _ in range(rounds)]
    longs = [opened for _, opened in pairs]
    return [
        Figure(
            name="page-open",
            what=f"CPU of page and server until the newest row of a run of {LONG.events:,} events is visible",
            against=f"a run of {SHORT.events:,} events",
            spread=spread([opened.cpu / base.cpu for base, opened in pairs]),
            target=Target("≤", 1.5),
            note=f"{number(spread([opened.cpu for opened in longs]).median * 1e3)} ms",
        ),
        Figure(
            name="page-requests",
            what="requests for that, from the board",
            against="",
            spread=spread([float(opened.requests) for opened in longs]),
            unit="",
            target=Target("≤", 3),
        ),
        Figure(
            name="page-bytes",
            what="their answers",
            against="",
            spread=spread([opened.kilobytes for opened in longs]),
            unit="kB",
            target=Target("≤", 500),
        ),
    ]


def _open(browser: "Browser", server: Server) -> Opened:
    """From the board to the conversation, with the page's code loaded."""
    tab = _tab(browser, server)
    page, answers = tab.page, list["Response"]()
    page.goto(f"{server.url}/runs/{RUN}")
    page.locator(".row").last.wait_for()
    page.get_by_role("link", name="Board", exact=True).click()
    card = page.locator(f'[data-run="{RUN}"] [data-card]')
    card.wait_for()
    page.wait_for_load_state("networkidle")
    page.on("response", lambda answer: answers.append(answer))  # noqa: PLW0108 - a builtin cannot be called back
    before = _cpu(tab) + _server_cpu(server)
    card.click()
    page.locator(".row").last.wait_for()
    used = _cpu(tab) + _server_cpu(server) - before
    sizes = [len(answer.body()) for answer in answers]
    page.context.close()
    return Opened(used, len(sizes), sum(sizes) / 1000)


# a thousand events a second


def _streaming(browser: "Browser", home: str, seconds: int, flood: int) -> list[Figure]:
    with Server.start(home, "--no-watch", page=True) as server:
        tab = _tab(browser, server)
        page = tab.page
        page.goto(f"{server.url}/runs/{RUN}")
        page.locator(".row").last.wait_for()
        few = [_stream(tab, home, RATE * seconds // 4, RATE) for _ in range(4)]
        _stream(tab, home, flood, 0)
        many = [_stream(tab, home, RATE * seconds // 4, RATE) for _ in range(4)]
        tab.session.send("HeapProfiler.collectGarbage")
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        nodes = page.evaluate("document.querySelectorAll('*').length")
        page.context.close()
    streamed = f"{flood + 2 * RATE * seconds:,}"
    return [
        Figure(
            name="page-event",
            what=f"main-thread CPU of an event, at {RATE:,} a second",
            against="in the conversation",
            spread=spread([cpu * 1e6 for cpu in few + many]),
            unit="µs",
            target=Target("≤", 150),
        ),
        Figure(
            name="page-rows",
            what=f"the same after {flood:,} more events",
            against="with few rows",
            spread=spread([after / before for before, after in zip(few, many, strict=True)]),
            target=Target("≤", 1.25),
            note=f"the page keeps {MAX_ROWS:,} rows",
        ),
        Figure(
            name="page-heap",
            what=f"JavaScript heap after {streamed} streamed events",
            against="",
            spread=spread([heap]),
            unit="MB",
            target=Target("≤", 60),
        ),
        Figure(
            name="page-nodes",
            what="elements of the page then",
            against="",
            spread=spread([float(nodes)]),
            unit="",
            target=Target("≤", 1_500),
        ),
    ]


def _stream(tab: Tab, home: str, count: int, rate: int) -> float:
    """Append so many events. Returns the seconds of main-thread CPU of each, until the last is on the screen."""
    before = _cpu(tab)
    command = [sys.executable, "-m", "bench.page", home, str(count), str(rate)]
    last = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    tab.page.get_by_text(last, exact=True).wait_for()
    return (_cpu(tab) - before) / count


async def _make_streamed(home: str) -> None:
    store = FileStore(home, disk=Disk(sync=lambda fd: None))
    await store.create(RUN)
    async with open_run(store, RUN, feature="streamed") as run:
        created = RunCreated(run_id=RUN, goal="Stream", workflow="solo", repo="/src/shop", base="main")
        await run.begin_session(SessionStart(branch="main", host="vm", pid=4000), created)
        await run.append(ConversationOpened(conversation="c", agent="claude", role="worker", task=None))
        await run.append(*_work(0, 60))


async def _append(home: str, count: int, rate: int) -> None:
    store = FileStore(home, disk=Disk(sync=lambda fd: None))
    began, name = time.monotonic(), f"the last of {time.time_ns()}"
    batch = 20
    async with open_run(store, RUN, feature="streamed") as run:
        await run.begin_session(SessionStart(command="resume", branch="main", host="vm", pid=4000))
        for made in range(0, count, batch):
            await run.append(*_work(made, batch))
            if rate and (ahead := made / rate - (time.monotonic() - began)) > 0:
                await asyncio.sleep(ahead)
        await run.append(MessageRecorded(conversation="c", speaker="agent", text=name))
    print(name)


def _work(first: int, count: int) -> Iterator[Any]:
    """What an agent does: a third each of messages, calls and results."""
    for event in range(first, first + count):
        call = f"call-{event // 3}-{os.getpid()}"
        if event % 3 == 0:
            yield MessageRecorded(conversation="c", speaker="agent", text=f"I look at part {event} of it. " * 4)
        elif event % 3 == 1:
            yield ToolCalled(
                conversation="c", call=call, tool="read_file", turn=None, input=_raw({"path": f"src/{event}.py"})
            )
        else:
            yield ToolReturned(conversation="c", call=call, output=_raw("x = 1\n" * 10))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


# the browser


@contextmanager
def _browser() -> "Iterator[Browser]":
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may not be there

    options = browser_options()
    options["args"] += ["--enable-precise-memory-info"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        yield browser
        browser.close()


def _tab(browser: "Browser", server: Server) -> Tab:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(_PATIENCE_MS)
    sign_in(context, server)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return Tab(page, session)


def _cpu(tab: Tab) -> float:
    """Seconds that the page's main thread worked since the tab was opened."""
    metrics = {each["name"]: each["value"] for each in tab.session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def _server_cpu(server: Server) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    asyncio.run(_append(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
