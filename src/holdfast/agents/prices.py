"""What models cost, to estimate the cost of an agent that reports only tokens.

An estimate is never more than that: caches, discounts and subscriptions are unknown to it. Without a price for the
model there is no estimate, and the cost is unknown.
"""

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

import msgspec

_FILE = os.path.join(os.path.dirname(__file__), "prices.json")
_MILLION = 1_000_000


class TokenPrice(NamedTuple):
    """Dollars for a million tokens."""

    input: float
    output: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION


class _PriceFile(msgspec.Struct):
    models: dict[str, TokenPrice]


def find_price(model: str | None, own: Mapping[str, TokenPrice] = {}) -> TokenPrice | None:
    """Return the price of a model; `own` prices come first. A name may have its provider before it, as agents write it.

    Of several patterns that fit, the longest counts.
    """
    if not model:
        return None
    name = model.strip().lower().rpartition("/")[2].rpartition(":")[2]
    for prices in (own, _built_in()):
        fitting = [pattern for pattern in prices if fnmatchcase(name, pattern.lower()) or pattern == model]
        if fitting:
            return prices[max(fitting, key=len)]
    return None


@cache
def _built_in() -> Mapping[str, TokenPrice]:
    with open(_FILE, "rb") as file:
        return msgspec.json.decode(file.read(), type=_PriceFile).models
