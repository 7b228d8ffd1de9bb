"""What the strict check of a log found, in words."""

from holdfast.app.text.screen import pluralize, printable
from holdfast.core.log.verification import LogVerification

_MAX_PROBLEMS = 50


def counts_text(verdict: LogVerification) -> str:
    return ", ".join(
        (pluralize(verdict.lines, "line"), pluralize(verdict.events, "event"), pluralize(verdict.sessions, "session"))
    )


def proof_text(verdict: LogVerification) -> str:
    """Return in one line what is proven."""
    counts = counts_text(verdict)
    if verdict.damage_count:
        return f"damaged in {pluralize(verdict.damage_count, 'place')}; read {counts}"
    chain = f"chain {verdict.chain[:12]}" if verdict.chained or verdict.ours else "no chain: written by another tool"
    anchors = f"; {printable(anchor_lines(verdict)[0])}" if verdict.ours else ""
    return f"{counts}, {chain}{anchors}"


def problem_lines(verdict: LogVerification) -> list[str]:
    """Return the damage by line, and the repositories whose anchors could not be read."""
    damage = [f"line {each.line}: {printable(each.reason)}" for each in verdict.damage[:_MAX_PROBLEMS]]
    return [*damage, *(f"cannot read anchors in {printable(problem)}" for problem in verdict.anchors.unread)]


def anchor_lines(verdict: LogVerification) -> list[str]:
    """Return what data outside the run's folder proves, and what it does not."""
    anchors = verdict.anchors
    lines = [f"cannot read anchors in {problem}" for problem in anchors.unread]
    lines += [f"{path} does not exist; if it was moved, pass --repo NEW-PLACE" for path in anchors.absent]
    if anchors.last is None:
        lines.append("no anchors: nothing outside the run's folder confirms this log")
        return lines
    where = ", ".join(sorted({*anchors.repositories}))
    proven = f"{pluralize(anchors.held, 'anchor')} in {where}: lines 1 to {anchors.last_line} are unchanged"
    after = verdict.lines - anchors.last_line
    lines.append(f"{proven} (commit {anchors.last.commit[:12]}, {anchors.last.time})")
    if after:
        lines.append(f"{pluralize(after, 'line')} after the last anchor: only as safe as the file")
    lines.append("if the repository could have been rewritten too, check against a clone: --repo CLONE")
    return lines
