"""`ls --search`: where something was said."""

import pytest

from tests.cli.program import Program
from tests.cli.runs import DONE, make_run, resume_run, said


def runs_found(holdfast: Program, words: str) -> list[str]:
    return sorted(hit["run"] for hit in holdfast("ls", f"--search={words}", "--json").objects)


def test_a_message_is_found_by_its_words(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", said("We hit the rate limit of the API."), DONE)
    make_run(holdfast.home, "pay-abc234", said("The limit of the card is fine"), DONE)
    assert runs_found(holdfast, "rate limit") == ["auth-abc234"]
    assert runs_found(holdfast, "limit rate") == ["auth-abc234"]
    assert runs_found(holdfast, "LIMIT") == ["auth-abc234", "pay-abc234"]
    assert holdfast("ls", "--search", "rate limit").out == (
        "auth-abc234  agent: We hit the [rate] [limit] of the API.\n"
    )


def test_a_hit_says_who_said_it_and_where(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", said("first"), said("use tabs", speaker="user"))
    (hit,) = holdfast("ls", "--search", "tabs", "--json").objects
    assert (hit["run"], hit["speaker"], hit["excerpt"]) == ("auth-abc234", "user", "use [tabs]")
    assert hit["position"] > 0


def test_what_nobody_said_is_not_found(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", said("hello"))
    outcome = holdfast("ls", "--search", "good bye")
    assert (outcome.out, outcome.err) == ("", "no message contains 'good bye'\n")


@pytest.mark.parametrize("words", ['"stop" AND', "NEAR(stop", "*", "größe", "\udcff"])
def test_whatever_is_typed_is_words_to_find(holdfast: Program, words: str) -> None:
    make_run(holdfast.home, "auth-abc234", said('he said "stop" AND called NEAR(stop, GRÖSSE) of größe'))
    found = runs_found(holdfast, words)
    assert found == ([] if words in ("*", "\udcff") else ["auth-abc234"])


def test_what_is_said_later_is_found_too_and_nothing_is_found_twice(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", said("alpha"))
    assert runs_found(holdfast, "alpha") == ["auth-abc234"]
    for number in range(3):
        resume_run(holdfast.home, "auth-abc234", said(f"beta {number}"))
        assert runs_found(holdfast, f"beta {number}") == ["auth-abc234"]
    assert runs_found(holdfast, "alpha") == ["auth-abc234"]
    assert len(runs_found(holdfast, "beta")) == 3


def test_escape_sequences_in_a_message_do_not_reach_the_terminal(holdfast: Program) -> None:
    make_run(holdfast.home, "auth-abc234", said("\x1b[2J\x07wipe\r\nnext", speaker="\x1b[31mme"))
    (line,) = holdfast("ls", "--search", "wipe").lines
    assert not set(line) & {"\x1b", "\x07", "\r"}
