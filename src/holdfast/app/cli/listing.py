"""Lists runs for commands that have no event loop. Starts one only if the catalog is outdated: `ls` must start fast."""

from holdfast.engine.home import Home
from holdfast.engine.queries.runs import ListedRun, current_runs, list_runs


def all_runs(home: Home) -> list[ListedRun]:
    """Return all runs, the most recently active first."""
    runs = current_runs(home)
    if runs is None:
        import asyncio

        from holdfast.app.cli.progress import ProgressLine

        line = ProgressLine()  # the first listing of a large home reads every log
        runs = asyncio.run(list_runs(home, progress=lambda done, total: line.count_runs("reading", done, total)))
        line.clear()
    return runs
