"""While you were away: what happened in a run, what was interrupted, and what needs you."""

import asyncio
from collections.abc import Iterator, Sequence

from holdfast.app.text.screen import format_time, pluralize, printable
from holdfast.core.conversation.call_text import cut_lines
from holdfast.core.messages.answers import answer_text
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.needs import Need, NeedKind
from holdfast.core.summary.spending import spent_text
from holdfast.engine.home import Home
from holdfast.engine.queries.digest import Since, digest_of

_MAX_ITEMS = 10
_DETAIL_LINES = 12


def digest_lines(home: Home, run_id: str, since: Since = None) -> list[str]:
    """Return what happened since a position, a time, or the start of the newest session; empty if nothing happened."""
    return format_digest(asyncio.run(digest_of(home, run_id, since)), run_id)


def format_digest(digest: Digest, run_id: str) -> list[str]:
    rows = [*_summary_rows(digest), *(("interrupted", line) for line in _first_lines(digest.interrupted))]
    needs = format_needs(digest.needs, run_id)
    if not rows and not needs:
        return []
    until = format_time(digest.until)
    until = until[11:] if until[:10] == format_time(digest.since)[:10] else until
    more = "" if digest.whole else ", and more before that"
    lines = [
        f"since {format_time(digest.since)}, until {until}{more}" if digest.since else "nothing happened since then"
    ]
    lines += [f"  {name:11}  {printable(text)}" for name, text in rows]
    return [*lines, *(["needs you", *(f"  {line}" for line in needs)] if needs else [])]


def format_needs(needs: Sequence[Need], run_id: str, detail_lines: int = _DETAIL_LINES) -> list[str]:
    """Return each need with the command that answers it, followed by its details."""
    lines = []
    for need in needs[:_MAX_ITEMS]:
        about = f"{need.about}: " if need.about else ""
        lines.append(f"{printable(about + need.text)}{_next_command(need, run_id)}")
        detail = cut_lines(need.detail, detail_lines, f"holdfast show {run_id} --json has all of it")
        lines += [f"    {line}" for line in detail]
    if len(needs) > _MAX_ITEMS:
        lines.append(f"… and {len(needs) - _MAX_ITEMS} more (holdfast show {run_id} --json has them all)")
    return lines


def _next_command(need: Need, run_id: str) -> str:
    if need.answer is not None:
        return f"  →  {printable(answer_text(need.answer))}; apply it with: holdfast resume {run_id}"
    match need.want:
        case NeedKind.PERMISSION:
            return f"  →  holdfast approve {run_id} {printable(need.key or '')}   (or deny)"
        case NeedKind.APPROVAL:
            return f"  →  holdfast approve {run_id}   (or deny --changes TEXT), then holdfast resume {run_id}"
        case NeedKind.FAILURE | NeedKind.ISSUE:
            return f"  →  holdfast resume {run_id} --on-issue retry   (or restart, skip)"
        case NeedKind.INSTRUCTIONS:
            task = f" --task {printable(need.about)}" if need.about else ""
            return f"  →  holdfast send {run_id} MESSAGE{task}"
        case NeedKind.EFFECT:
            return f"  →  check it yourself, then holdfast resume {run_id}"
        case NeedKind.MESSAGE:
            return f"  →  deliver it with: holdfast resume {run_id}"


def _summary_rows(digest: Digest) -> Iterator[tuple[str, str]]:
    if digest.why:
        yield "stopped", printable(digest.why)
    if digest.completed:
        yield "done", _join_names(digest.completed)
    if digest.failed:
        yield "failed", _join_names(digest.failed)
    if digest.skipped:
        yield "skipped", _join_names(digest.skipped)
    if digest.commits or digest.merged:
        yield "merged", f"{pluralize(digest.commits, 'commit')}, {pluralize(len(digest.merged), 'branch')}"
    if digest.accepted or digest.rejected:
        yield "verdicts", f"{digest.accepted} accepted, {digest.rejected} rejected"
    if digest.turns or digest.cut_turns:
        interrupted = f", {digest.cut_turns} interrupted" if digest.cut_turns else ""
        yield "turns", f"{digest.turns} ended{interrupted}"
    if digest.tokens or digest.dollars is not None or digest.unpriced:
        yield "spent", spent_text(digest.tokens, digest.dollars, digest.unpriced, digest.estimate)
    if digest.repairs:
        yield "repaired", f"{pluralize(digest.repairs, 'torn write')} at the end of the log"


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_ITEMS} more" if len(names) > _MAX_ITEMS else ""
    return f"{', '.join(names[:_MAX_ITEMS])}{more}"


def _first_lines(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MAX_ITEMS]
    if len(lines) > _MAX_ITEMS:
        yield f"… and {len(lines) - _MAX_ITEMS} more"
