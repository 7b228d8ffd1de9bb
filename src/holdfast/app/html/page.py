"""The page as a whole, written as the log is read: memory does not grow with the run."""

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from typing import BinaryIO

from holdfast.app.html.escape import words
from holdfast.app.html.spool import Spool
from holdfast.app.html.summary import summary
from holdfast.app.html.transcript import TALK, Transcript
from holdfast.app.text.events import subject, told, tone
from holdfast.app.text.screen import counted, moment
from holdfast.core.events import Event
from holdfast.core.log.codec import CODEC, Line, Unfit
from holdfast.core.state import RunState
from holdfast.engine.queries.digest import digest_of
from holdfast.engine.queries.logs import EVERYTHING, read_log, view_run

_TIMELINE = ""  # no conversation is called that


async def write_page(home: str, run_id: str, out: BinaryIO) -> None:
    view = await view_run(home, run_id)
    _put(out, _head(run_id))
    _put(out, summary(view, await digest_of(home, run_id, view=view)))
    with tempfile.TemporaryDirectory(prefix="holdfast-export-") as folder:
        spool, kinds = Spool(folder), dict[str, None]()
        transcript = Transcript()
        async with aclosing(read_log(home, run_id, EVERYTHING)) as lines:
            async for found in lines:
                if isinstance(found.line, Line):
                    _sort(found.line, view.state, spool, transcript, kinds)
        _put(out, _tools(kinds))
        for name in spool.names():
            if name != _TIMELINE:
                _put(out, _conversation(view.state, name))
                out.writelines(spool.read(name))
                out.write(b"</details>\n")
        out.write(b"</section><section id=timeline><h2>Timeline</h2>\n")
        if _TIMELINE in spool.names():
            out.writelines(spool.read(_TIMELINE))
    _put(out, ["</section></main>", f"<script>{_asset('page.js')}</script>", "</body></html>"])


def _sort(line: Line, state: RunState, spool: Spool, transcript: Transcript, kinds: dict[str, None]) -> None:
    """What belongs to a conversation goes there; what happened in the run, into the timeline."""
    event = _event(line)
    if isinstance(event, TALK):
        piece = transcript.piece(event, line.ts)
        if piece is not None:
            spool.add(getattr(event, "conversation", "") or "unnamed", piece)
        return
    said = told(event) if event is not None else line.type
    if said is None:
        return
    kind = line.type.partition(".")[0]
    kinds[kind] = None
    who = words(subject(event, state)) if event is not None else ""
    colour = tone(event) if event is not None else None
    spool.add(
        _TIMELINE,
        f'<div class="e line {colour or ""}" data-kind="{words(kind)}"><time>{words(moment(line.ts))}</time>'
        f"<b>{who}</b><span>{words(said)}</span></div>",
    )


def _event(line: Line) -> Event | None:
    try:
        return CODEC.event(line)
    except Unfit as unfit:
        return unfit.without


def _conversation(state: RunState, name: str) -> Iterator[str]:
    talk = state.conversations.get(name)
    about = [talk.task, talk.role, talk.agent, counted(talk.turns, "turn")] if talk is not None else []
    told_of = " · ".join(words(part) for part in about if part)
    yield f"<details class=talk><summary><b>{words(name)}</b> {told_of} <i></i></summary>"


def _tools(kinds: dict[str, None]) -> Iterator[str]:
    yield "<nav><input id=search type=search placeholder='Search what was said and done' autocomplete=off>"
    yield "<select id=kind><option value=''>the whole timeline</option>"
    yield from (f'<option value="{words(kind)}">{words(kind)}</option>' for kind in sorted(kinds))
    yield "</select><button id=unfold type=button>unfold all</button><output id=found></output></nav>"
    yield "<section id=talks><h2>Conversations</h2>"


def _head(run_id: str) -> Iterator[str]:
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield "<!doctype html>"
    yield f'<html lang=en><head><meta charset=utf-8><meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name=referrer content=no-referrer><meta name=viewport content="width=device-width, initial-scale=1">'
    yield f"<title>{words(run_id)} · Holdfast</title><style>{style}</style></head><body><main>"


def _asset(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _put(out: BinaryIO, lines: Iterator[str] | list[str]) -> None:
    out.writelines(f"{line}\n".encode(errors="replace") for line in lines)
