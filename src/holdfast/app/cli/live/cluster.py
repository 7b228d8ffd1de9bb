"""Cluster runs at the terminal: submit one, and show it while a worker runs it."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys

from holdfast.app.cli.inspect.show_cluster import no_worker_text
from holdfast.app.cli.live.live import choose_style, show_run
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import end_of_log, view_run
from holdfast.engine.queries.placement import list_workers
from holdfast.leaf.errors import EXIT_OK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.engine.commands.cluster.engine_address import EngineAddress


def submit_and_show(
    home: Home, run_id: str, options: argparse.Namespace, *choice: str, engine: EngineAddress | None = None
) -> int:
    """Submit a run, then show it until its session ends or Ctrl-C, which changes nothing on the cluster."""
    from holdfast.engine.commands.cluster.submit import submit_run

    after = asyncio.run(end_of_log(home, run_id))
    asyncio.run(submit_run(home, run_id, *choice, engine=engine))
    if options.json:
        print(json.dumps({"run": run_id, "submitted": True}), flush=True)
    else:
        sys.stderr.write(f"{run_id} is submitted; watch it with: holdfast attach {run_id}\n")
        missing = asyncio.run(_missing_worker(home, run_id))
        sys.stderr.write(f"{missing}\n" if missing is not None else "")
    if options.detach or options.json or options.quiet or not sys.stdout.isatty():
        return EXIT_OK
    signal.signal(signal.SIGINT, lambda *_: sys.exit(EXIT_OK))
    asyncio.run(show_run(home, run_id, style=choose_style(options), after=after, notices=asyncio.Queue()))
    return EXIT_OK


async def _missing_worker(home: Home, run_id: str) -> str | None:
    view = await view_run(home, run_id)
    return no_worker_text(view, await list_workers(home))
