"""What agents report counts once."""

import asyncio

from holdfast.engine.home import Home
from holdfast.engine.reports.submit import Reporter, submit_report
from tests.support.cli_stage import HANG, Stage, killed, wait_for_event, worker

ONE = {"write": {"path": "one.txt", "text": "1\n"}}


def test_what_waits_for_a_resume_counts_once(stage: Stage) -> None:
    agent = stage.book(worker(ONE, HANG, {"say": "done"}))
    with stage.start("run", "take your time", "--agent", agent) as process:
        conversation_id = wait_for_event(process, "tool.returned")["data"]["conversation"]
        stage.hangs()
        killed(process)
    run = stage.only_run()
    said = [f"step {number}" for number in range(40)]
    who = Reporter(Home(stage.home), run, "worker", conversation_id)
    for text in said:
        asyncio.run(submit_report(who, "report_progress", {"text": text}))
    stage.resume(run)
    assert [d["text"] for d in stage.data(run, "progress.reported")] == said
