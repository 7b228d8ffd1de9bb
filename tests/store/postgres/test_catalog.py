"""Listing and searching in the database: rows follow the logs, and the same words are found as in files."""

import pytest

from holdfast.core.events.conversation import ConversationOpened, MessageRecorded
from holdfast.engine.home import Home
from holdfast.engine.queries.runs import current_runs, list_runs, search_messages
from holdfast.store.postgres.search_text import excerpt, normalized_words
from holdfast.store.run import open_run
from tests.support.events import START
from tests.support.postgres import PostgresServer
from tests.support.run_files import RUN


@pytest.fixture
def cluster(postgres: PostgresServer, home: str) -> Home:
    return Home(home, postgres.new_store_url())


async def say(home: Home, *texts: str) -> None:
    async with open_run(home.store, RUN) as run:
        opened = ConversationOpened(conversation="c", agent="a", role="worker")
        messages = [MessageRecorded(conversation="c", turn="1", speaker="agent", text=text) for text in texts]
        await run.begin_session(START, opened, *messages)


async def found(home: Home, query: str) -> list[str]:
    return [hit.excerpt for hit in await search_messages(home, query)]


async def test_listing_follows_what_is_written(cluster: Home) -> None:
    await cluster.store.create(RUN)
    assert current_runs(cluster) is None
    (listed,) = await list_runs(cluster)
    assert (listed.id, listed.status) == (RUN, "empty")
    assert current_runs(cluster) == [listed]
    await say(cluster, "one")
    assert current_runs(cluster) is None
    (listed,) = await list_runs(Home(cluster.path, cluster.store_url))
    assert listed.status == "interrupted"
    async with cluster.store.own(RUN):
        assert [run.status for run in await list_runs(cluster)] == ["running"]
    await cluster.store.discard(RUN)
    assert current_runs(cluster) == []


async def test_all_words_must_be_in_a_message_also_after_it_grew(cluster: Home) -> None:
    await cluster.store.create(RUN)
    await say(cluster, "The parser in src/holdfast/parse.py is slow", "Café, naïve \0 and NUL")
    assert await found(cluster, "parser slow") == ["The [parser] in src/holdfast/parse.py is [slow]"]
    assert await found(cluster, "parse.py") == ["The parser in src/holdfast/[parse].[py] is slow"]
    assert await found(cluster, "cafe") == ["[Café], naïve   and NUL"]
    assert await found(cluster, "parser fast") == []
    assert await found(cluster, "'; DROP TABLE run") == []
    assert await found(cluster, " ... ") == []
    await say(cluster, "the parser is fast now")
    assert await found(cluster, "parser fast") == ["the [parser] is [fast] now"]
    assert len(await found(cluster, "parser")) == 2


def test_excerpt_shows_the_words_around_the_first_hit() -> None:
    text = " ".join(f"w{number}" for number in range(50))
    assert excerpt(text, "w30") == "…w27 w28 w29 [w30] w31 w32 w33 w34 w35 w36 w37 w38…"
    assert excerpt(text, "w0 w2") == "[w0] w1 [w2] w3 w4 w5 w6 w7 w8 w9 w10 w11…"
    assert excerpt(text, "w49").endswith("w48 [w49]")
    assert excerpt("", "w") == ""
    assert normalized_words("Ünïcode_and-more 42") == ["unicode", "and", "more", "42"]
