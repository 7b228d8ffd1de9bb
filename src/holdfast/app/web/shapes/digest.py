"""What happened in a run."""

import msgspec

from holdfast.app.web.shapes.needs import NeedView, need_view
from holdfast.core.end_reason import end_reason_text
from holdfast.core.state import RunState
from holdfast.core.summary.digest import Digest


class DigestView(msgspec.Struct, frozen=True):
    """`whole` is false when the period began before the part that was read."""

    since: str | None
    until: str | None
    whole: bool
    events: int
    sessions: int
    ended: str | None
    ended_text: str | None
    completed: list[str]
    failed: list[str]
    skipped: list[str]
    commits: int
    merged: list[str]
    accepted: int
    rejected: int
    turns: int
    interrupted_turns: int
    repairs: int
    tokens: int
    dollars: float | None
    estimate: float | None
    unpriced: int
    interrupted: list[str]
    needs: list[NeedView]


def digest_view(digest: Digest, state: RunState) -> DigestView:
    return DigestView(
        since=digest.since,
        until=digest.until,
        whole=digest.whole,
        events=digest.events,
        sessions=digest.sittings,
        ended=digest.ended,
        ended_text=end_reason_text(digest.ended) if digest.ended is not None else None,
        completed=digest.completed,
        failed=digest.failed,
        skipped=digest.skipped,
        commits=digest.commits,
        merged=digest.merged,
        accepted=digest.accepted,
        rejected=digest.rejected,
        turns=digest.turns,
        interrupted_turns=digest.cut_turns,
        repairs=digest.repairs,
        tokens=digest.tokens,
        dollars=digest.dollars,
        estimate=digest.estimate,
        unpriced=digest.unpriced,
        interrupted=digest.interrupted,
        needs=[need_view(need, state) for need in digest.needs],
    )
