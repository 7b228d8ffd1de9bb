import json
import subprocess
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.events import Event
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.core.events.task import TaskCompleted, TaskStarted
from holdfast.core.log import chain
from holdfast.core.log.verification import LogVerification, Verifier
from tests.core.logs import entry, foreign
from tests.core.strategies import events, examples
from tests.golden import make

EVENTS: tuple[Event, ...] = (
    SessionStart(command="run"),
    TaskStarted(task_id="1"),
    MessageRecorded(conversation="c1", speaker="agent", text='it\'s "$HOME" `x` 100%s \\ ü\n'),
    TaskCompleted(task_id="1"),
    SessionEnd(reason="completed"),
)


def sealed(*bares: bytes) -> list[bytes]:
    lines, link = [], chain.GENESIS
    for bare in bares:
        line, link = chain.seal(link, bare)
        lines.append(line)
    return lines


LOG = sealed(*(entry(event, seq).rstrip() for seq, event in enumerate(EVENTS)))


def verdict_on(lines: list[bytes], *, must_be_chained: bool = True) -> LogVerification:
    verifier = Verifier(must_be_chained=must_be_chained)
    verifier.feed(b"".join(line + b"\n" for line in lines))
    return verifier.result()


# One line


@given(events(), st.sampled_from([chain.GENESIS, "0af7651916cd43dd8448eb211c80319c"]))
@examples(100)
def test_a_sealed_line_unseals_to_what_it_was(event: Event, previous: str) -> None:
    bare = entry(event).rstrip()
    line, link = chain.seal(previous, bare)
    assert chain.unseal(line) == (bare, link)
    assert chain.carried_link(line) == link == chain.link(previous, bare)
    assert list(json.loads(line))[-1] == "chain"


@pytest.mark.parametrize("end", [b"\n", b" ", b" \n", b"\r\n"])
def test_what_stands_after_the_object_is_not_part_of_the_line(end: bytes) -> None:
    assert chain.unseal(LOG[0] + end) == chain.unseal(LOG[0])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"not json",
        foreign("x").rstrip(),
        b'{"chain":"0af7651916cd43dd8448eb211c80319c"}',
        b'{"a":1,"chain":"short"}',
        b'{"a":1,"chain":"0af7651916cd43dd8448eb211c80319c","b":1}',
        b'{"a":1,"chain":"\xff\xff7651916cd43dd8448eb211c80319c"}',
        b'{"data":{"a":1,"chain":"0af7651916cd43dd8448eb211c80319c"}}',
    ],
)
def test_a_line_that_carries_no_link_stays_whole(line: bytes) -> None:
    assert chain.unseal(line) == (line, None)


def test_the_recipe_for_checking_by_hand_works_in_a_shell() -> None:
    assert chain.__doc__ is not None
    (recipe,) = [text.strip() for text in chain.__doc__.splitlines() if "sha256sum" in text]
    for log in (LOG, make.EVENTS_V1.read_bytes().splitlines()[:5]):
        previous = chain.GENESIS
        for line in log:
            bare, link = chain.unseal(line)
            script = f"previous_link=$1; line_without_chain=$2; {recipe}"
            shell = ["sh", "-c", script, "sh", previous, bare.decode()]
            assert subprocess.run(shell, capture_output=True, check=True, text=True).stdout.strip() == link
            assert link is not None
            previous = link


# A log


def test_a_log_as_it_was_written_is_whole() -> None:
    verdict = verdict_on(LOG)
    assert verdict.is_intact
    assert verdict.chained
    assert verdict.chain == chain.carried_link(LOG[-1])
    assert (verdict.lines, verdict.events, verdict.sessions) == (5, 5, 1)


@pytest.mark.parametrize("number", range(len(LOG)))
def test_any_changed_byte_of_a_line_shows(number: int) -> None:
    for place in range(len(LOG[number])):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(LOG[number])
            changed[place] ^= flip
            damaged = [*LOG[:number], bytes(changed), *LOG[number + 1 :]]
            assert not verdict_on(damaged).is_intact, (place, flip)


@pytest.mark.parametrize("number", range(len(LOG)))
def test_any_missing_byte_of_a_line_shows(number: int) -> None:
    for place in range(len(LOG[number])):
        cut = LOG[number][:place] + LOG[number][place + 1 :]
        assert not verdict_on([*LOG[:number], cut, *LOG[number + 1 :]]).is_intact, place


@pytest.mark.parametrize("number", range(len(LOG) - 1))
def test_a_removed_line_shows_where_the_next_one_stands(number: int) -> None:
    verdict = verdict_on([*LOG[:number], *LOG[number + 1 :]])
    assert verdict.damage[0].line == number + 1
    assert verdict.chain == chain.carried_link(LOG[-1])


def test_lines_cut_off_at_the_end_show_in_the_link_at_the_end() -> None:
    verdict = verdict_on(LOG[:-1])
    assert verdict.is_intact
    assert verdict.chain != chain.carried_link(LOG[-1])


def test_any_other_order_of_the_lines_shows() -> None:
    for order in permutations(LOG):
        assert verdict_on(list(order)).is_intact == (list(order) == LOG)


@pytest.mark.parametrize("number", range(len(LOG) + 1))
def test_a_line_put_in_shows(number: int) -> None:
    strange = foreign("task.completed", seq=len(LOG), data={"taskId": "1"}).rstrip()
    assert not verdict_on([*LOG[:number], strange, *LOG[number:]]).is_intact


def test_a_changed_line_that_was_sealed_again_shows_at_the_next() -> None:
    forged, _ = chain.seal(chain.GENESIS, entry(SessionStart(command="forged")).rstrip())
    verdict = verdict_on([forged, *LOG[1:]])
    assert [damage.line for damage in verdict.damage] == [2]
    assert "chain broken" in verdict.damage[0].reason


# A log that another tool began


def test_lines_without_a_link_are_covered_by_the_next_that_has_one() -> None:
    before = [foreign("x", 0, "other").rstrip(), b"", foreign("x", 1, "other").rstrip()]
    link = chain.GENESIS
    for line in before:
        link = chain.link(link, line)
    ours, _ = chain.seal(link, entry(SessionStart(command="resume")).rstrip())
    assert [damage.reason for damage in verdict_on([*before, ours], must_be_chained=False).damage] == ["blank line"]
    broken = [before[0].replace(b"x", b"y"), *before[1:], ours]
    assert verdict_on(broken, must_be_chained=False).damage[-1].line == 4


def test_once_a_line_carries_a_link_every_later_one_must() -> None:
    strange = foreign("x", seq=len(LOG)).rstrip()
    damage = verdict_on([*LOG, strange], must_be_chained=False).damage
    assert [(found.line, found.reason) for found in damage] == [
        (len(LOG) + 1, "carries no link: this line is not in the chain")
    ]


@pytest.mark.parametrize("end", [b"\t", b"\r", b"  ", b" \t"])
def test_what_nobody_wrote_after_a_line_shows(end: bytes) -> None:
    damage = verdict_on([LOG[0] + end, *LOG[1:]]).damage
    assert [(found.line, found.reason) for found in damage] == [(1, "there is text after the end of the line's JSON")]


def test_the_mark_of_a_line_written_together_with_the_one_before_is_no_damage() -> None:
    assert verdict_on([LOG[0], LOG[1] + b" ", *LOG[2:]]).is_intact


def test_a_log_without_any_link_can_still_be_whole() -> None:
    lines = [foreign("x", seq).rstrip() for seq in range(3)]
    assert verdict_on(lines, must_be_chained=False).is_intact
    assert not verdict_on(lines).is_intact
