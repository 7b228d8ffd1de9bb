"""Prices of models, for estimates: the user's first, the most exact pattern, and none for what is not known."""

import pytest

from holdfast.agents.prices import TokenPrice, find_price


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("claude-opus-4-5-20251101", (5, 25)),
        ("claude-opus-4-1", (15, 75)),
        ("anthropic:claude-sonnet-4-5", (3, 15)),
        ("openai/gpt-5", (1.25, 10)),
        ("GPT-5-mini", (0.25, 2)),
        ("gemini-2.5-flash-lite", (0.1, 0.4)),
        ("gemini-2.5-flash", (0.3, 2.5)),
        ("gpt-5-unheard-of", None),
        ("default", None),
        ("", None),
        (None, None),
    ],
)
def test_price_of_a_model(model: str | None, price: tuple[float, float] | None) -> None:
    assert find_price(model) == price


def test_own_prices_come_first() -> None:
    own = {"gpt-5*": TokenPrice(1, 2), "gpt-5-mini": TokenPrice(3, 4), "My Model": TokenPrice(5, 6)}
    assert find_price("gpt-5", own) == (1, 2)
    assert find_price("gpt-5-mini", own) == (3, 4)
    assert find_price("My Model", own) == (5, 6)
    assert find_price("claude-haiku-4-5", own) == (1, 5)


def test_cost_of_tokens() -> None:
    assert TokenPrice(3, 15).cost(1_000_000, 200_000) == 6.0
