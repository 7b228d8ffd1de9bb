"""The catalog in the database: summaries of runs and their messages, for all machines. Derived from the logs.

A row is current while it was made from the whole log. The functions block, like those of the catalog in a file.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.store.index import CatalogListing, CatalogRow, IndexedMessage, LogStamp, SearchHit, Summary
from holdfast.store.postgres.client import Client
from holdfast.store.postgres.connect import Connection
from holdfast.store.postgres.search_text import excerpt, normalized_words

_LISTING = """
SELECT run.id, run.serial, run.head AS log_end, summary.head, summary.messages_until, summary.fields
FROM run LEFT JOIN summary ON summary.run = run.serial ORDER BY run.id"""
_STORED = """
SELECT run.id, run.serial, summary.head, summary.messages_until, summary.fields
FROM run LEFT JOIN summary ON summary.run = run.serial WHERE run.serial = $1 FOR UPDATE OF run"""
_PUT = """
INSERT INTO summary (run, head, messages_until, fields) VALUES ($1, $2, $3, $4)
ON CONFLICT (run) DO UPDATE SET head = $2, messages_until = $3, fields = $4"""
_ADD = """
INSERT INTO said (run, position, speaker, text, words)
SELECT $1, added.position, added.speaker, added.text, to_tsvector('simple', added.words)
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[]) AS added (position, speaker, text, words)"""
_SEARCH = """
SELECT run.id, said.position, said.speaker, said.text FROM said JOIN run ON run.serial = said.run,
plainto_tsquery('simple', $1) AS query
WHERE said.words @@ query ORDER BY ts_rank(said.words, query) DESC, said.position DESC LIMIT $2"""


class PostgresCatalog:
    def __init__(self, client: Client) -> None:
        self._client = client

    def listing(self) -> CatalogListing:
        current: list[tuple[str, Summary]] = []
        stale: dict[str, CatalogRow | None] = {}
        for row in self._client.run_blocking(lambda connection: connection.fetch(_LISTING)):
            if row["fields"] is not None and row["head"] == row["log_end"]:
                current.append((row["id"], _summary(row["fields"])))
            else:
                stale[row["id"]] = _row(row)
        return CatalogListing(current, stale)

    def listing_of(self, repo: str) -> CatalogListing:
        """Like `listing`, but without the current rows of other repositories."""
        current, stale = self.listing()
        return CatalogListing([(run_id, summary) for run_id, summary in current if summary.repo == repo], stale)

    def put(
        self,
        row: CatalogRow,
        messages: Sequence[IndexedMessage] = (),
        *,
        old: CatalogRow | None = None,
        replace_messages: bool = False,
    ) -> None:
        """Store a row, and the messages since the `old` one; with `replace_messages`, instead of all earlier messages.

        Does nothing when the stored row is not `old` any more: another process was faster.
        """

        async def put(connection: Connection) -> None:
            serial = row.stamp.inode
            async with connection.transaction():
                stored = await connection.fetchrow(_STORED, serial)
                if stored is None or _row(stored) != old:
                    return
                if replace_messages:
                    await connection.execute("DELETE FROM said WHERE run = $1", serial)
                await connection.execute(_ADD, serial, *_columns(messages))
                fields = msgspec.json.encode(tuple(row.summary))
                await connection.execute(_PUT, serial, row.stamp.size, row.messages_until, fields)

        self._client.run_blocking(put)

    def forget(self, run_ids: Iterable[str]) -> None:
        """Rows go with their runs."""

    def search(self, query: str, limit: int = 50) -> list[SearchHit]:
        """Return the messages that contain all words of the query, best first."""
        words = " ".join(normalized_words(query))
        if not words:
            return []
        found = self._client.run_blocking(lambda connection: connection.fetch(_SEARCH, words, limit))
        return [SearchHit(row["id"], row["position"], row["speaker"], excerpt(row["text"], query)) for row in found]


def _columns(messages: Sequence[IndexedMessage]) -> tuple[list[int], list[str], list[str], list[str]]:
    texts = [_storable(message.text) for message in messages]
    return (
        [message.position for message in messages],
        [_storable(message.speaker) for message in messages],
        texts,
        [" ".join(normalized_words(text)) for text in texts],
    )


def _storable(text: str) -> str:
    """The database holds any text but one character."""
    return text.encode(errors="replace").decode().replace("\0", " ")


def _row(row: Connection) -> CatalogRow | None:
    if row["fields"] is None:
        return None
    stamp = LogStamp(row["serial"], row["head"], 0)
    return CatalogRow(row["id"], stamp, row["messages_until"], _summary(row["fields"]))


def _summary(fields: bytes) -> Summary:
    return Summary._make(msgspec.json.decode(fields))
