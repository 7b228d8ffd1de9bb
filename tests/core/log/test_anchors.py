"""Anchors: what a commit's message says of a log, and what a log must be to fit them."""

import pytest

from holdfast.core.events.session import RunCreated, SessionStart
from holdfast.core.log.anchors import Anchor, RecordedAnchor, anchors_in
from holdfast.core.log.verification import Verifier
from tests.core.logs import entry, foreign, session_log

LINK = "0123456789abcdef" * 2
OTHER = "f" * 32

MESSAGES = {
    "trailers": (f"Do it\n\nHoldfast-Run: a\nHoldfast-Chain: 12:{LINK}", [(12, LINK)]),
    "several runs, squashed": (
        f"* one\n\nHoldfast-Run: b\nHoldfast-Chain: 1:{OTHER}\n\n* two\n\nHoldfast-Run: a\nHoldfast-Chain: 2:{LINK}\n",
        [(2, LINK)],
    ),
    "two of one run": (
        f"Holdfast-Run: a\nHoldfast-Chain: 1:{LINK}\nHoldfast-Run: a\nHoldfast-Chain: 2:{OTHER}",
        [(1, LINK), (2, OTHER)],
    ),
    "another run": (f"Holdfast-Run: b\nHoldfast-Chain: 12:{LINK}", []),
    "no run": (f"Holdfast-Chain: 12:{LINK}", []),
    "no position": (f"Holdfast-Run: a\nHoldfast-Chain: {LINK}", []),
    "half a link": (f"Holdfast-Run: a\nHoldfast-Chain: 12:{LINK[:-1]}", []),
    "quoted": (f"Holdfast-Run: a\n> Holdfast-Chain: 12:{LINK}", []),
    "carriage returns": (f"Do it\r\n\r\nHoldfast-Run: a\r\nHoldfast-Chain: 12:{LINK}\r\n", [(12, LINK)]),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_holds_the_anchors_of_its_runs(name: str) -> None:
    message, expected = MESSAGES[name]
    assert list(anchors_in(message, {"a"})) == [Anchor(*one) for one in expected]


def recorded(position: int, chain: str) -> RecordedAnchor:
    return RecordedAnchor(position, chain, "c" * 40, "2026-02-14T10:00:00Z", "Do it", "/repo/.git")


def test_an_anchor_holds_at_the_end_of_the_line_that_it_saw() -> None:
    log = foreign("x", 0) + foreign("x", 1)
    reader = Verifier()
    reader.feed(foreign("x", 0))
    first = recorded(len(foreign("x", 0)), reader.result().chain)
    cases = {
        (first,): (1, 0),
        (recorded(first.position, OTHER),): (0, 1),
        (recorded(first.position - 1, first.chain),): (0, 1),
        (recorded(len(log) + 1, OTHER), first): (1, 1),
    }
    for anchors, expected in cases.items():
        verifier = Verifier(anchors=anchors)
        verifier.feed(log)
        check = verifier.result().anchors
        assert (check.held, len(check.missing)) == expected


def test_a_missing_anchor_is_damage_at_its_line_or_after_the_last() -> None:
    verifier = Verifier(must_be_chained=True, anchors=[recorded(10_000, OTHER), recorded(3, OTHER)])
    verifier.feed(entry(SessionStart()))
    verdict = verifier.result()
    assert not verdict.is_intact
    assert [(one.line, one.reason.partition(":")[0]) for one in verdict.damage if "cccccccccccc" in one.reason] == [
        (2, "cut off")
    ]


def test_a_log_that_has_no_chain_is_ours_by_its_run_or_by_an_anchor() -> None:
    unchained = foreign("x", 0)
    theirs, anchored, created = Verifier(), Verifier(anchors=[recorded(1, OTHER)]), Verifier()
    for verifier in (theirs, anchored):
        verifier.feed(unchained)
    created.feed(session_log(SessionStart(), RunCreated(run_id="a", goal="g")))
    assert (theirs.result().ours, theirs.result().is_intact) == (False, True)
    assert (anchored.result().ours, anchored.result().damage[0].line) == (True, 1)
    verdict = created.result()
    assert (verdict.ours, verdict.chained, verdict.is_intact) == (True, False, False)
