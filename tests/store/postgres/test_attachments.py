"""A file that a person attaches on one machine is there for the agent on another."""

import os

from holdfast.engine.attachments import attachment_path, has_attachment, share_attachment, store_attachment
from holdfast.engine.home import Home
from tests.support.postgres import PostgresServer
from tests.support.run_files import RUN


async def test_attachment_is_fetched_where_the_run_is(postgres: PostgresServer, home: str) -> None:
    url = postgres.new_store_url()
    here, there = Home(f"{home}-a", url), Home(f"{home}-b", url)
    await here.store.create(RUN)
    attachment = store_attachment(here.folder(RUN), "plan.txt", b"do it")
    assert not await has_attachment(there, RUN, attachment)
    await share_attachment(here, RUN, attachment)
    assert await has_attachment(there, RUN, attachment)
    with open(attachment_path(there.folder(RUN), attachment), "rb") as file:
        assert file.read() == b"do it"


async def test_file_that_is_not_what_was_attached_is_not_taken(postgres: PostgresServer, home: str) -> None:
    url = postgres.new_store_url()
    here, there = Home(f"{home}-a", url), Home(f"{home}-b", url)
    await here.store.create(RUN)
    attachment = store_attachment(here.folder(RUN), "plan.txt", b"do it")
    await here.store.save_file(RUN, attachment_path("", attachment), b"do something else")
    assert not await has_attachment(there, RUN, attachment)
    assert not os.path.exists(attachment_path(there.folder(RUN), attachment))
