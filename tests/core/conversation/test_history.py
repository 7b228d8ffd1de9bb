"""A conversation as text: the seed's format, the newest within the budget."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.conversation.history import (
    MAX_MESSAGE_CHARS,
    MAX_RESULT_CHARS,
    EntryKind,
    History,
    HistoryEntry,
    build_history,
)
from holdfast.core.text.cut import cut

STORY = [
    HistoryEntry(EntryKind.USER, "add OAuth"),
    HistoryEntry(EntryKind.ASSISTANT, "I look first."),
    HistoryEntry(EntryKind.CALL, tool="read_file"),
    HistoryEntry(EntryKind.RESULT, "def login(): ...", "read_file"),
    HistoryEntry(EntryKind.ASSISTANT, "Done."),
]


def test_it_is_the_seeds_format() -> None:
    assert (
        build_history(reversed(STORY))
        .prompt_with_history("and now tests")
        .startswith(
            "RESUME CONTEXT FOR CONTINUING TASK\n"
            "\n"
            "=== EXECUTION HISTORY ===\n"
            "[USER]: add OAuth\n"
            "[ASSISTANT]: I look first.\n"
            "[TOOL CALL: read_file]\n"
            "[TOOL RESULT: read_file] def login(): ...\n"
            "[ASSISTANT]: Done.\n"
            "\n"
            "=== CURRENT REQUEST ===\n"
            "and now tests\n"
            "\n"
            "=== INSTRUCTIONS ===\n"
            "You are continuing work on the above task."
        )
    )


def test_it_says_not_to_repeat_what_is_done() -> None:
    assert "Do not repeat work that was already completed." in build_history(reversed(STORY)).prompt_with_history("x")


def test_messages_and_results_are_cut_and_say_so() -> None:
    long = build_history(
        [
            HistoryEntry(EntryKind.USER, "x" * (MAX_MESSAGE_CHARS + 7)),
            HistoryEntry(EntryKind.RESULT, "y" * (MAX_RESULT_CHARS + 3), "grep"),
        ]
    ).prompt_with_history("")
    assert f"{'x' * MAX_MESSAGE_CHARS}… [7 more characters]" in long
    assert f"{'y' * MAX_RESULT_CHARS}… [3 more characters]" in long


def test_the_newest_get_the_budget_and_it_says_that_there_was_more() -> None:
    history = build_history(
        (HistoryEntry(EntryKind.USER, f"message {number}") for number in range(9, -1, -1)), budget=60
    )
    text = history.prompt_with_history("go on")
    assert "message 9" in text
    assert "message 0" not in text
    assert "[earlier entries are left out]" in text
    assert history.omitted_count == 7
    assert text.index("message 8") < text.index("message 9")


def test_no_history_is_no_history() -> None:
    assert not History()


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_cut_is_at_whole_characters(text: str, most: int) -> None:
    short = cut(text, most)
    assert short.startswith(text[:most])
    short.encode(errors="surrogatepass")


@given(st.lists(st.text(max_size=100)), st.integers(0, 500))
def test_the_history_never_exceeds_its_budget(texts: list[str], budget: int) -> None:
    empty = len(History().prompt_with_history(""))
    history = build_history((HistoryEntry(EntryKind.ASSISTANT, text) for text in texts), budget)
    more = len("[earlier entries are left out]\n") if history.omitted_count else 0
    assert len(history.prompt_with_history("")) <= empty + budget + more
