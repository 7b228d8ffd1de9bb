"""Deadlines are longer on a busy machine, within reason."""

import pytest

from holdfast.leaf.process.load import factor_for_load, load_factor


@pytest.mark.parametrize(
    ("load", "cpus", "expected"),
    [(0.0, 2, 1.0), (2.0, 2, 1.0), (4.0, 2, 2.0), (6.0, 4, 1.5), (900.0, 2, 10.0)],
)
def test_deadlines_stretch_with_the_processes_per_cpu(load: float, cpus: int, expected: float) -> None:
    assert factor_for_load(load, cpus) == expected


def test_slowness_of_this_machine_is_within_reason() -> None:
    assert 1.0 <= load_factor() <= 10.0
