"""Shows a running run in the style that the options and the terminal ask for.

It only reads the log. A view that fails or closes does not affect the run.
"""

import argparse
import asyncio
import os
import sys
from contextlib import suppress

from holdfast.app.cli.live.line_view import LineView, OutputStyle
from holdfast.app.text.screen import warn
from holdfast.engine.home import Home
from holdfast.engine.queries.live.follow import Follower
from holdfast.leaf.errors import HoldfastError


def choose_style(options: argparse.Namespace) -> OutputStyle:
    """Return the style for the options and the terminal."""
    if options.json:
        return OutputStyle.JSON
    if getattr(options, "quiet", False):
        return OutputStyle.QUIET
    return OutputStyle.RICH if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" else OutputStyle.PLAIN


async def show_run(
    home: Home,
    run_id: str,
    *,
    style: OutputStyle,
    after: int | None = None,
    notices: "asyncio.Queue[str] | None" = None,
) -> None:
    """Show events after a position (default: from now on), until the session ends or this is cancelled.

    `notices` are lines from other code to print among the events: only the view may write to the screen meanwhile.
    An error here ends the view and nothing else.
    """
    try:
        view = open_view(home, run_id, await Follower.create(home, run_id, after), style)
        try:
            await view.follow(notices)
        finally:
            await view.close()
    except (HoldfastError, OSError) as error:
        with suppress(OSError):
            warn([f"the run continues, but cannot be shown: {error}"])


def open_view(home: Home, run_id: str, follower: Follower, style: OutputStyle) -> LineView:
    if style is not OutputStyle.RICH:
        return LineView(home, run_id, follower, style)
    from holdfast.app.cli.live.rich_view import RichView  # only for a terminal

    return RichView(home, run_id, follower, style)
