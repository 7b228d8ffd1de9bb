"""What is sent: a disk that refuses once is asked again, and the message comes once."""

import os

from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.support.events import START
from tests.support.faults import run_with_faults
from tests.support.run_files import RUN, content, inbox_file

SEND = """
import asyncio, sys
from holdfast.core.messages.schema import UserMessage
from holdfast.engine.home import Home
from holdfast.engine.commands.send import send
asyncio.run(send(Home(sys.argv[1]), sys.argv[2], UserMessage("hello")))
"""
REPORT = """
import asyncio, sys
from holdfast.engine.home import Home
from holdfast.engine.reports.submit import Reporter, submit_report
reporter = Reporter(Home(sys.argv[1]), sys.argv[2], "worker", "w1")
asyncio.run(submit_report(reporter, "report_progress", {"text": "half of it"}))
"""


async def test_a_message_and_a_report_that_the_disk_refused_once_come_once(home: str) -> None:
    store = FileStore(home)
    await store.create(RUN)
    for code in (SEND, REPORT):
        calls = run_with_faults(code, home, RUN, trace="fdatasync", faults="fdatasync:error=EIO:when=1")
        assert len([call for call in calls if os.path.basename(inbox_file(home)) in call]) == 2
    assert content(inbox_file(home)).count(b"\n") == 4
    async with open_run(store, RUN) as run:
        await run.begin_session(START)
        assert [message.kind for message in await run.consume_inbox()] == ["user", "signal.report_progress"]
