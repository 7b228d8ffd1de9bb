"""SIGKILL before, between and after the git commands of every effect: then it is done once, and all is the same."""

import pytest

from holdfast.git.effects import EFFECTS
from tests.support.effect_child import EFFECT, INTENT
from tests.support.effect_crash import Prepared
from tests.support.effect_scenes import KINDS, SCENES
from tests.support.variants import every

MOST = 60  # commands of an effect


def test_every_effect_has_a_scene() -> None:
    assert SCENES.keys() == EFFECTS.keys()


@pytest.mark.parametrize("kind", every(3, KINDS))
async def test_killed_after_the_intent_or_before_the_outcome_it_is_done_once(prepared: Prepared, kind: str) -> None:
    play = await prepared(kind)
    for point in (INTENT, EFFECT):
        play.set_back()
        with play.orchestrator(stop=point) as orchestrator:
            assert orchestrator.hear() == point
            orchestrator.kill()
        await play.finish()
        await play.must_be_as_if_nothing_had_been()


async def killed_at_commands(prepared: Prepared, kind: str, who: str, numbers: range) -> None:
    play = await prepared(kind)
    stage = play.stage
    for number in numbers:
        play.set_back()
        stage.git_fault.kill(who, number)
        with play.orchestrator() as orchestrator:
            orchestrator.hear()
            orchestrator.wait()
        if stage.git_fault.is_pending():
            assert number > 1 or kind == "pull_request"
            return
        await play.finish()
        await play.must_be_as_if_nothing_had_been()
    pytest.fail("so many commands?")


@pytest.mark.parametrize("kind", every(5, KINDS))
async def test_whoever_orders_an_effect_and_dies_between_its_commands_it_is_done_once(
    prepared: Prepared, kind: str
) -> None:
    """At one of three of them."""
    await killed_at_commands(prepared, kind, "orchestrator", range(1, MOST, 3))


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", ["orchestrator", "git", "both", "finished"])
async def test_whoever_dies_at_any_command_of_an_effect_it_is_done_once(
    prepared: Prepared, kind: str, who: str
) -> None:
    await killed_at_commands(prepared, kind, who, range(1, MOST))
