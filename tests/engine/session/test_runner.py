"""What the run loop refuses, whatever it is told to do."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.core.decide.actions import Action, ActionKey, Do
from holdfast.engine.session.runner import AlreadyInProgress, Runner


class _Waiting:
    """Steps that never finish."""

    async def take(self, _: Action) -> None:
        await asyncio.Event().wait()


async def test_second_start_of_a_key_in_progress_is_refused() -> None:
    unused = cast("Any", None)
    runner = Runner(unused, unused, cast("Any", _Waiting()), unused, unused)
    runner._start(Action(Do.WORK, "phase 1"))
    runner._start(Action(Do.TELL, phase="1"))
    with pytest.raises(AlreadyInProgress) as refused:
        runner._start(Action(Do.EVALUATE, "phase 1"))
    assert refused.value.key == ActionKey("task", "phase 1")
