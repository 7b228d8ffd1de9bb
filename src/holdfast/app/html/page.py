"""Writes the page while reading the log, so that memory does not grow with the run."""

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from typing import BinaryIO

from holdfast.app.html.escape import escape_text
from holdfast.app.html.spool import Spool
from holdfast.app.html.summary import summary
from holdfast.app.html.timeline import draw_timeline, positions_of
from holdfast.app.html.transcript import CONVERSATION_EVENTS, Transcript
from holdfast.app.text.event_colours import event_colour
from holdfast.app.text.events import describe_event, event_subject
from holdfast.app.text.screen import format_time, pluralize
from holdfast.core.events import Event
from holdfast.core.log.codec import CODEC, InvalidEventData, Line
from holdfast.core.state import RunState
from holdfast.engine.home import Home
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.logs import ALL_EVENTS, read_log, view_run
from holdfast.engine.queries.timeline import RunTimelines

_TIMELINE = ""  # not the id of a conversation


async def write_page(home: Home, run_id: str, out: BinaryIO) -> None:
    view = await view_run(home, run_id)
    _write_lines(out, _head(run_id))
    picture = await RunTimelines(home).picture(view)
    _write_lines(out, summary(view, await digest_of(home, run_id, view=view), draw_timeline(picture)))
    anchors = Anchors(positions_of(picture))
    with tempfile.TemporaryDirectory(prefix="holdfast-export-") as folder:
        spool, kinds = Spool(folder), dict[str, None]()
        transcript = Transcript()
        async with aclosing(read_log(home, run_id, ALL_EVENTS)) as lines:
            async for log_line in lines:
                anchors.note_passed(log_line.cursor)
                if isinstance(log_line.line, Line):
                    _add_line(log_line.line, view.state, spool, transcript, kinds, anchors)
        _write_lines(out, _toolbar(kinds))
        for name in spool.names():
            if name != _TIMELINE:
                _write_lines(out, _conversation_heading(view.state, name))
                out.writelines(spool.read(name))
                out.write(b"</details>\n")
        out.write(b"</section><section id=timeline><h2>Timeline</h2>\n")
        if _TIMELINE in spool.names():
            out.writelines(spool.read(_TIMELINE))
    _write_lines(out, ["</section></main>", f"<script>{_read_asset('page.js')}</script>", "</body></html>"])


class Anchors:
    """The targets of links: the next thing on the page after the line of each position."""

    def __init__(self, positions: set[int]) -> None:
        self._wanted = positions
        self._passed: list[int] = []

    def note_passed(self, position: int) -> None:
        if position in self._wanted:
            self._passed.append(position)

    def take(self) -> str:
        passed, self._passed = self._passed, []
        return "".join(f"<a id=p{position}></a>" for position in passed)


def _add_line(
    line: Line, state: RunState, spool: Spool, transcript: Transcript, kinds: dict[str, None], anchors: Anchors
) -> None:
    """Add an event to its conversation, or to the timeline if it belongs to none."""
    event = _decode_event(line)
    if isinstance(event, CONVERSATION_EVENTS):
        piece = transcript.html_for(event, line.ts)
        if piece is not None:
            spool.add(getattr(event, "conversation", "") or "unnamed", anchors.take() + piece)
        return
    text = describe_event(event) if event is not None else line.type
    if text is None:
        return
    kind = line.type.partition(".")[0]
    kinds[kind] = None
    subject = escape_text(event_subject(event, state)) if event is not None else ""
    colour = event_colour(event) if event is not None else None
    spool.add(
        _TIMELINE,
        f'{anchors.take()}<div class="e line {colour or ""}" '
        f'data-kind="{escape_text(kind)}"><time>{escape_text(format_time(line.ts))}</time>'
        f"<b>{subject}</b><span>{escape_text(text)}</span></div>",
    )


def _decode_event(line: Line) -> Event | None:
    try:
        return CODEC.event(line)
    except InvalidEventData as error:
        return error.partial_event


def _conversation_heading(state: RunState, conversation_id: str) -> Iterator[str]:
    known = state.conversations.get(conversation_id)
    parts = [known.task, known.role, known.agent, pluralize(known.turns, "turn")] if known is not None else []
    title = " · ".join(escape_text(part) for part in parts if part)
    yield f"<details class=conversation><summary><b>{escape_text(conversation_id)}</b> {title} <i></i></summary>"


def _toolbar(kinds: dict[str, None]) -> Iterator[str]:
    yield "<nav><input id=search type=search placeholder='Search messages, tool calls and events' autocomplete=off>"
    yield "<select id=kind><option value=''>the whole timeline</option>"
    yield from (f'<option value="{escape_text(kind)}">{escape_text(kind)}</option>' for kind in sorted(kinds))
    yield "</select><button id=unfold type=button>unfold all</button><output id=found></output></nav>"
    yield "<section id=conversations><h2>Conversations</h2>"


def _head(run_id: str) -> Iterator[str]:
    style, script = _read_asset("page.css"), _read_asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_csp_hash(style)}'; script-src '{_csp_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield "<!doctype html>"
    yield f'<html lang=en><head><meta charset=utf-8><meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name=referrer content=no-referrer><meta name=viewport content="width=device-width, initial-scale=1">'
    yield f"<title>{escape_text(run_id)} · Holdfast</title><style>{style}</style></head><body><main>"


def _read_asset(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _write_lines(out: BinaryIO, lines: Iterator[str] | list[str]) -> None:
    out.writelines(f"{line}\n".encode(errors="replace") for line in lines)
