"""A figure: a measurement of many rounds, its target if it has one, and whether the target was met.

The machine is noisy, and the noise comes in phases. So the two sides of a ratio take turns in short blocks, each round
gives one ratio, and the figure is their median; the 10th and 90th percentile show the spread.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Spread:
    median: float
    p10: float
    p90: float
    rounds: int


def spread(values: Sequence[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return Spread(statistics.median(values), tenths[0], tenths[-1], len(values))


@dataclass(frozen=True)
class Target:
    sense: Literal["≥", "≤"]
    value: float

    def met_by(self, value: float) -> bool:
        return value >= self.value if self.sense == "≥" else value <= self.value


@dataclass(frozen=True)
class Figure:
    """`spread` is None if it could not be measured. `note` says why, or gives absolute numbers."""

    name: str
    what: str
    against: str
    spread: Spread | None
    unit: str = "×"
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target. A figure that was not measured meets no target."""
        if self.target is None:
            return None
        return self.spread is not None and self.target.met_by(self.spread.median)

    @property
    def shown(self) -> str:
        return "not measured" if self.spread is None else f"{number(self.spread.median)} {self.unit}"

    @property
    def spread_shown(self) -> str:
        if self.spread is None or self.spread.rounds == 1:
            return ""
        return f"{number(self.spread.p10)} – {number(self.spread.p90)}"

    @property
    def target_shown(self) -> str:
        return f"{self.target.sense} {number(self.target.value)} {self.unit}" if self.target else ""


def number(value: float) -> str:
    """Return the value with three significant digits and no exponent."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
