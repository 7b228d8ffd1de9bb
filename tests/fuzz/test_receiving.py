"""What a fuzzed inbox is acted on by gets as far as to every meaning that a message can have."""

from tests.fuzz.receiving import MEANINGS, receive
from tests.fuzz.seeds import MESSAGES


def test_whatever_a_message_can_mean_comes_of_one_of_the_seeds() -> None:
    came = set[str]().union(*map(receive, MESSAGES))
    assert set[str]().union(*MEANINGS.values()) <= came


def test_all_of_them_at_once_are_each_acted_on_once() -> None:
    assert "plan.created" in receive(b"".join(MESSAGES))
