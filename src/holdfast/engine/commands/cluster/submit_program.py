"""Submits one run to Temporal, in a process of its own: its client is large, and may abort when Python exits.

The request comes by stdin. One line on stdout is the answer; the exit code means nothing. Submitting again is harmless:
the run's workflow has the run's id, and a running one is woken.
"""

import asyncio
import os
import sys
from typing import NoReturn

import msgspec
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from holdfast.engine.commands.cluster.engine_address import (
    WAKE_SIGNAL,
    WORKFLOW,
    WORKFLOW_QUEUE,
    EngineAddress,
    Placement,
)
from holdfast.engine.commands.cluster.temporal import connect_engine

TIMEOUT_S = 20.0


class Submission(msgspec.Struct):
    engine: EngineAddress
    placement: Placement
    heartbeat_s: float | None = None


class SubmissionAnswer(msgspec.Struct):
    """`problem` is None when Temporal has the run."""

    problem: str | None = None


async def submit(client: Client, submission: Submission) -> None:
    placement = submission.placement
    await client.start_workflow(
        WORKFLOW,
        {"run_id": placement.run_id, "label": placement.label, "heartbeat_s": submission.heartbeat_s},
        id=placement.run_id,
        task_queue=WORKFLOW_QUEUE,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=WAKE_SIGNAL,
        start_signal_args=[placement.options],
    )


async def _submit_or_explain(submission: Submission) -> SubmissionAnswer:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await submit(await connect_engine(submission.engine, f"holdfast-submit@{os.uname().nodename}"), submission)
    except Exception as error:  # noqa: BLE001 - whatever the client raises is the answer
        return SubmissionAnswer(str(error) or type(error).__name__)
    return SubmissionAnswer()


def main() -> NoReturn:
    submission = msgspec.json.decode(sys.stdin.buffer.read(), type=Submission)
    answer = asyncio.run(_submit_or_explain(submission))
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
    os._exit(0)  # without the client's teardown


if __name__ == "__main__":
    main()
