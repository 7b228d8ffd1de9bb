"""SIGKILL at each pass of each of its points, and again while it comes back: what was saved is told to the model once.

Nothing is done twice, nothing that was done is forgotten, and no call is said to be unrun that had its effect.
"""

import sys

import pytest

from holdfast.leaf.failpoints import RECORD_ONLY
from tests.agents.builtin.driving import Bench
from tests.agents.builtin.life import Life, each
from tests.support.model_server.server import ModelServer
from tests.support.variants import first

POINTS = (
    pytest.param("builtin.save.before", marks=pytest.mark.torture),
    pytest.param("builtin.save.after", marks=pytest.mark.torture),
    "builtin.ask",
    "builtin.shell",
    "builtin.mcp",
    "builtin.mcp.spawn",
    "file.replace",
    pytest.param("builtin.save.torn", marks=pytest.mark.torture),
)


async def held(bench: Bench, model: ModelServer, *failpoints: str) -> None:
    life = Life(bench, model, failpoints[-1])
    for failpoint in failpoints:
        passed = await life.sit(failpoint)
        name, number = failpoint.split(":")
        assert passed.count(name) == int(number), f"nobody came by at {failpoint}"
    kept = life.kept
    assert life.session is None or kept["lines"] == life.saves, "saved, and not there"
    lost = life.saves - kept["lines"]  # of a session of which nobody was told
    await life.sit(RECORD_ONLY)
    life.must_be_whole(kept)
    assert life.kept["lines"] == life.saves - lost, "what was torn spoils what comes after it"


@pytest.mark.parametrize("most", first(1, sys.maxsize))
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_each_pass_of_a_point_it_goes_on_from_what_was_saved(
    bench: Bench, model: ModelServer, point: str, most: int
) -> None:
    failpoints = each(await Life(bench, model, "whole").sit(RECORD_ONLY), point)
    assert failpoints
    for failpoint in failpoints[:most]:
        await held(bench, model, failpoint)


async def test_killed_at_some_of_its_saves_it_goes_on_from_what_was_saved(bench: Bench, model: ModelServer) -> None:
    failpoints = each(await Life(bench, model, "whole").sit(RECORD_ONLY), "builtin.save.before")[::6]
    assert len(failpoints) > 1
    for failpoint in failpoints:
        await held(bench, model, failpoint)


async def test_killed_again_over_the_half_of_a_line_it_goes_on_from_what_was_saved(
    bench: Bench, model: ModelServer
) -> None:
    for failpoint in ("builtin.repair.before:1", "builtin.repair.after:1"):
        await held(bench, model, "builtin.save.torn:7", failpoint)


@pytest.mark.torture
@pytest.mark.parametrize("first", ["builtin.shell.after:1", "builtin.save.torn:7"])
async def test_killed_again_wherever_it_comes_by_it_goes_on_from_what_was_saved(
    bench: Bench, model: ModelServer, first: str
) -> None:
    life = Life(bench, model, "whole")
    await life.sit(first)
    for failpoint in each(await life.sit(RECORD_ONLY)):
        await held(bench, model, first, failpoint)
