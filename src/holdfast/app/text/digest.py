"""While you were away: what happened in a run, what was interrupted, and what needs you."""

import asyncio
from collections.abc import Iterator, Sequence

from holdfast.app.text.screen import counted, moment, plain
from holdfast.core.conversation.call_text import cut
from holdfast.core.messages.answers import told_answer
from holdfast.core.summary.digest import Digest
from holdfast.core.summary.needs import Need, Want
from holdfast.core.summary.spending import spent_text
from holdfast.engine.queries.digest import Since, digest_of

_MOST = 10
_DETAIL_LINES = 12


def digest_lines(home: str, run_id: str, since: Since = None) -> list[str]:
    """Since a position, a moment, or the beginning of the newest sitting. Empty when there is nothing to tell."""
    return told_digest(asyncio.run(digest_of(home, run_id, since)), run_id)


def told_digest(digest: Digest, run_id: str) -> list[str]:
    rows = [*_happened(digest), *(("interrupted", one) for one in _first(digest.interrupted))]
    wanted = wanting(digest.needs, run_id)
    if not rows and not wanted:
        return []
    until = moment(digest.until)
    until = until[11:] if until[:10] == moment(digest.since)[:10] else until
    more = "" if digest.whole else ", and more before that"
    lines = [f"since {moment(digest.since)}, until {until}{more}" if digest.since else "nothing happened since"]
    lines += [f"  {name:11}  {plain(words)}" for name, words in rows]
    return [*lines, *(["needs you", *(f"  {line}" for line in wanted)] if wanted else [])]


def wanting(needs: Sequence[Need], run_id: str, detail_lines: int = _DETAIL_LINES) -> list[str]:
    """Each with the command that answers it, and with what there is to know before that."""
    lines = []
    for need in needs[:_MOST]:
        about = f"{need.about}: " if need.about else ""
        lines.append(f"{plain(about + need.text)}{_next(need, run_id)}")
        detail = cut(need.detail, detail_lines, f"holdfast show {run_id} --json has all of it")
        lines += [f"    {line}" for line in detail]
    if len(needs) > _MOST:
        lines.append(f"… and {len(needs) - _MOST} more (holdfast show {run_id} --json has them all)")
    return lines


def _next(need: Need, run_id: str) -> str:
    if need.answer is not None:
        return f"  →  {plain(told_answer(need.answer))}; it waits to be applied: holdfast resume {run_id}"
    match need.want:
        case Want.PERMISSION:
            return f"  →  holdfast approve {run_id} {plain(need.key or '')}   (or deny)"
        case Want.APPROVAL:
            return f"  →  holdfast approve {run_id}   (or deny --changes WORDS), then holdfast resume {run_id}"
        case Want.FAILURE | Want.TROUBLE:
            return f"  →  holdfast resume {run_id} --on-issue retry   (or restart, skip)"
        case Want.WORDS:
            task = f" --task {plain(need.about)}" if need.about else ""
            return f"  →  holdfast send {run_id} WORDS{task}"
        case Want.EFFECT:
            return f"  →  look, then holdfast resume {run_id}"
        case Want.MESSAGE:
            return f"  →  it comes with holdfast resume {run_id}"


def _happened(digest: Digest) -> Iterator[tuple[str, str]]:
    if digest.completed:
        yield "done", _listed(digest.completed)
    if digest.failed:
        yield "failed", _listed(digest.failed)
    if digest.skipped:
        yield "skipped", _listed(digest.skipped)
    if digest.commits or digest.merged:
        yield "merged", f"{counted(digest.commits, 'commit')}, {counted(len(digest.merged), 'branch')}"
    if digest.accepted or digest.rejected:
        yield "verdicts", f"{digest.accepted} accepted, {digest.rejected} rejected"
    if digest.turns or digest.cut_turns:
        cut = f", {digest.cut_turns} cut off" if digest.cut_turns else ""
        yield "turns", f"{digest.turns} ended{cut}"
    if digest.tokens or digest.dollars is not None or digest.unpriced:
        yield "spent", spent_text(digest.tokens, digest.dollars, digest.unpriced)
    if digest.repairs:
        yield "repaired", f"{counted(digest.repairs, 'torn end')} of the log"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{', '.join(names[:_MOST])}{more}"


def _first(lines: Sequence[str]) -> Iterator[str]:
    yield from lines[:_MOST]
    if len(lines) > _MOST:
        yield f"… and {len(lines) - _MOST} more"
