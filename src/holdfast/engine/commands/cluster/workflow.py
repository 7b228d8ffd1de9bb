"""The workflow of one run: an activity that holds the run on some machine, again and again until the run is done.

It decides nothing about the run; the log does. It only makes sure that some machine works on it, and waits for a
provider's limit with a timer that outlives every machine.
"""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from holdfast.engine.commands.cluster.engine_address import (
        HOLD_ACTIVITY,
        SEEN_OPTION,
        WAKE_SIGNAL,
        WORKFLOW,
        queue_of,
    )

HEARTBEAT_TIMEOUT = timedelta(seconds=30)
_LONGEST_SESSION = timedelta(days=365)
_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=10)
)


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """Its id is the id of the run: a run that is submitted twice is placed once."""

    def __init__(self) -> None:
        self._is_awake = False
        self._options: list[str] = []

    @workflow.signal(name=WAKE_SIGNAL)
    def wake(self, options: list[str]) -> None:
        """Continue now: a person sent something, or wants the run to continue before a limit resets."""
        self._is_awake, self._options = True, options

    @workflow.run
    async def run(self, placement: dict[str, Any]) -> dict[str, Any]:
        heartbeat_s = float(placement.get("heartbeat_s") or HEARTBEAT_TIMEOUT.total_seconds())
        while True:
            self._is_awake, options = False, self._options
            ended: dict[str, Any] = await workflow.execute_activity(
                HOLD_ACTIVITY,
                {"run_id": placement["run_id"], "options": options},
                task_queue=queue_of(placement.get("label")),
                start_to_close_timeout=_LONGEST_SESSION,
                heartbeat_timeout=timedelta(seconds=heartbeat_s),
                retry_policy=_RETRIES,
            )
            if self._options is options:  # the session had them; a stop since the submission goes on to count
                self._options = [option for option in options if option.startswith(SEEN_OPTION)]
            if not self._is_awake:
                if ended.get("resumes_at") is None:
                    return ended
                await self._sleep_until(datetime.fromisoformat(ended["resumes_at"]))

    async def _sleep_until(self, moment: datetime) -> None:
        seconds = (moment - workflow.now()).total_seconds()
        if seconds > 0:
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(lambda: self._is_awake, timeout=timedelta(seconds=seconds))
