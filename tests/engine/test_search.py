"""Searching what was said: whatever is typed is words, never a query language."""

import asyncio

import pytest

from holdfast.engine.home import Home
from holdfast.engine.queries.runs import search_messages
from tests.cli.runs import make_run, said

RUN = "auth-abc234"


def found(home: str, words: str) -> list[str]:
    return [hit.run for hit in asyncio.run(search_messages(Home(home), words))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate limit of the API", "limit rate"),
        ("Rate Limit", "rAtE"),
        ('he said "stop" twice', '"stop"'),
        ('he said "stop" twice', '"stop" twice"'),
        ("SELECT * FROM runs", "* FROM"),
        ("this AND that", "this AND that"),
        ("this OR that", "OR"),
        ("do NOT", "NOT"),
        ("call NEAR(a, b)", "NEAR("),
        ("call NEAR(a, b) 5 times", "NEAR(a b, 5)"),
        ("column text:foo", "text:foo"),
        ("column run : foo", "run : foo"),
        ("caret ^start", "^start"),
        ("a - b", "-b"),
        ("a + b", "+ b"),
        ("it's C++ {really}", "C++ {really}"),
        ("path src/api/service.ts:42", "src/api/service.ts:42"),
        ("semi; DROP TABLE said;--", "'; DROP TABLE said;--"),
        ("back\\slash", "back\\slash"),
        ("Größe ändern", "größe ÄNDERN"),
        ("ΕΛΛΗΝΙΚΑ γράμματα", "ελληνικα"),
        ("привет, мир", "Привет мир"),
        ("第一波 完成", "第一波"),
        ("naïve café", "cafe"),
        ("shalom שלום", "שלום"),
        ("deploy 🌊 done", "🌊 done"),
        ("nul\x00byte", "byte"),
        ("tab\tand\nnewline", "tab newline"),
    ],
)
def test_whatever_is_typed_is_words_to_find(home: str, text: str, words: str) -> None:
    make_run(home, RUN, said(text))
    make_run(home, "pay-abc234", said("nothing of the kind"))
    assert found(home, words) == [RUN]


@pytest.mark.parametrize("words", ["", " ", "\t\n", "*", "()", '"', '""', '" "', "\udcff", "\x1b[", "\0", "-", "🌊"])
def test_what_holds_no_word_finds_nothing(home: str, words: str) -> None:
    make_run(home, RUN, said('hello * () " - 🌊'))
    assert found(home, words) == []


def test_a_part_of_a_word_is_not_the_word(home: str) -> None:
    make_run(home, RUN, said("authentication"))
    assert found(home, "auth") == []


def test_the_best_hit_comes_first_and_not_more_than_fifty_come(home: str) -> None:
    make_run(home, RUN, *(said(f"needle {'hay ' * 50}") for _ in range(60)), said("needle needle"))
    hits = asyncio.run(search_messages(Home(home), "needle"))
    assert len(hits) == 50
    assert hits[0].excerpt == "[needle] [needle]"


def test_a_hit_shows_the_words_in_their_place(home: str) -> None:
    make_run(home, RUN, said(f"{'before ' * 50}needle{' after' * 50}", speaker="user"))
    (hit,) = asyncio.run(search_messages(Home(home), "needle"))
    assert "[needle]" in hit.excerpt
    assert hit.excerpt.startswith("…before")
    assert len(hit.excerpt) < 150
    assert (hit.run, hit.speaker) == (RUN, "user")
