"""Bringing the catalog up to date: what a row says, and that what was said is indexed once."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.fold.fold import Fold
from holdfast.engine.home import Home
from holdfast.engine.queries.catalog import condition_of, index_runs, summarize
from holdfast.engine.queries.runs import list_runs, search_messages
from holdfast.store.files.catalog import Catalog, query_catalog
from tests.cli.foreign import SEED_LOG, event, put, started
from tests.cli.runs import DONE, log_of, make_run, resume_run, said

RUN = "auth-abc234"


def found(home: str, words: str) -> list[str]:
    return [hit.excerpt for hit in asyncio.run(search_messages(Home(home), words))]


def messages_indexed(home: str) -> int:
    db = sqlite3.connect(Path(home, "catalog.sqlite"))
    (count,) = db.execute("SELECT count(*) FROM said").fetchone()
    db.close()
    return int(count)


def test_only_new_text_is_indexed_when_a_log_has_grown(home: str) -> None:
    make_run(home, RUN, said("alpha"), said("beta"))
    assert found(home, "alpha") == ["[alpha]"]
    log = log_of(home, RUN)
    log.write_bytes(log.read_bytes().replace(b"alpha", b"omega"))
    resume_run(home, RUN, said("gamma"))
    assert found(home, "gamma") == ["[gamma]"]
    assert found(home, "alpha") == ["[alpha]"], "was not read again"
    assert found(home, "omega") == []
    assert messages_indexed(home) == 3


def test_a_log_that_is_not_the_same_is_indexed_anew(home: str) -> None:
    make_run(home, RUN, said("alpha"))
    assert found(home, "alpha") == ["[alpha]"]
    log = log_of(home, RUN)
    other = log.with_name("other")
    other.write_bytes(log.read_bytes().replace(b"alpha", b"omega") * 2)
    other.replace(log)
    assert found(home, "alpha") == []
    assert found(home, "omega") == ["[omega]", "[omega]"]


def test_what_is_torn_is_not_indexed_until_it_is_whole(home: str) -> None:
    whole = event("message.recorded", 1, {"conversation": "c", "speaker": "agent", "text": "alpha"})
    log = put(home, "runs", RUN, "events.jsonl", log=started() + whole[:-5])
    assert found(home, "alpha") == []
    with open(log, "ab") as file:
        file.write(whole[-5:])
    assert found(home, "alpha") == ["[alpha]"]


def test_a_message_across_the_chunks_of_a_long_log_is_indexed(home: str) -> None:
    messages = [
        event("message.recorded", n, {"conversation": "c", "speaker": "a", "text": f"w{n} " * 9}) for n in range(5000)
    ]
    put(home, "runs", RUN, "events.jsonl", log=b"".join(messages))
    for number in (0, 999, 1000, 2500, 4999):
        assert len(found(home, f"w{number}")) == 1
    assert messages_indexed(home) == 5000


def test_a_very_long_message_is_found_by_its_beginning(home: str) -> None:
    make_run(home, RUN, said("alpha " + "x " * 20_000 + "omega"))
    assert len(found(home, "alpha")) == 1
    assert found(home, "omega") == []


def test_lines_that_only_look_like_messages_are_passed_over(home: str) -> None:
    log = (
        event("message.recorded", 0, {"text": 5})
        + b'"message.recorded" alpha\n'
        + event("x", 1, {"quoted": "message.recorded", "text": "alpha"})
        + event("message.recorded", 2, {"conversation": "c", "speaker": "agent", "text": "alpha"}, v=99)
    )
    put(home, "runs", RUN, "events.jsonl", log=log)
    assert found(home, "alpha") == []
    assert asyncio.run(list_runs(Home(home)))[0].summary.events == 3


def test_two_who_index_the_same_run_at_once_index_it_once(home: str) -> None:
    make_run(home, RUN, said("alpha"))
    asyncio.run(list_runs(Home(home)))
    resume_run(home, RUN, said("beta"), DONE)
    path = str(Path(home, "catalog.sqlite"))
    with Catalog(home, path) as first, Catalog(home, path) as second:
        behind = first.listing().stale, second.listing().stale
        (one,) = asyncio.run(index_runs(Home(home), first, behind[0]))
        (two,) = asyncio.run(index_runs(Home(home), second, behind[1]))
    assert one == two
    assert found(home, "beta") == ["[beta]"]
    assert messages_indexed(home) == 2


def test_an_index_that_was_cut_off_half_way_is_completed(home: str) -> None:
    messages = [
        event("message.recorded", n, {"conversation": "c", "speaker": "a", "text": f"w{n}"}) for n in range(9000)
    ]
    put(home, "runs", RUN, "events.jsonl", log=b"".join(messages))

    class CutOffError(Exception):
        pass

    class ShortLived(Catalog):
        puts = 0

        def put(self, *row: object, **how: object) -> None:
            super().put(*row, **how)  # type: ignore[arg-type]
            ShortLived.puts += 1
            if ShortLived.puts == 2:
                raise CutOffError

    with ShortLived(home, str(Path(home, "catalog.sqlite"))) as catalog, pytest.raises(CutOffError):
        asyncio.run(index_runs(Home(home), catalog, catalog.listing().stale))
    assert 0 < messages_indexed(home) < 9000
    assert len(found(home, "w8999")) == 1
    assert messages_indexed(home) == 9000
    assert asyncio.run(list_runs(Home(home)))[0].summary.events == 9000


def test_a_forgotten_run_is_not_found_any_more(home: str) -> None:
    make_run(home, RUN, said("alpha"))
    assert found(home, "alpha")
    log_of(home, RUN).unlink()
    assert found(home, "alpha") == []
    assert messages_indexed(home) == 0


def test_a_question_that_the_file_cannot_answer_is_answered_from_memory(home: str) -> None:
    make_run(home, RUN, said("alpha"))
    asked: list[Catalog] = []

    def fails_once(catalog: Catalog) -> int:
        asked.append(catalog)
        if len(asked) == 1:
            raise sqlite3.OperationalError("database is locked")
        return len(catalog.listing().stale)

    assert query_catalog(home, fails_once) == 1
    assert len(asked) == 2


SAID = MessageRecorded(conversation="c", speaker="agent", text="t")


def test_a_summary_tells_a_run_in_one_row() -> None:
    fold = Fold()
    fold.feed(SEED_LOG)
    summary = summarize(fold.state)
    assert summary._asdict() == {
        "slug": "auth-system",
        "goal": None,
        "workflow": None,
        "repo": None,
        "condition": "open",
        "created": "2026-02-14T10:00:00.000Z",
        "updated": "2026-02-14T10:08:00.000Z",
        "sessions": 1,
        "events": 11,
        "tasks_done": 1,
        "tasks": 2,
        "tokens": 0,
        "dollars": None,
        "estimate": None,
        "unpriced": 0,
        "needs": 0,
        "want": None,
        "need": None,
        "adopted": None,
        "adopted_path": None,
        "adopted_session": None,
        "resumes_at": None,
    }


def test_a_summary_of_nothing_is_empty() -> None:
    summary = summarize(Fold().state)
    assert (summary.condition, summary.events, summary.created, summary.updated) == ("empty", 0, None, None)


@pytest.mark.parametrize(
    ("log", "condition"),
    [
        (b"", "empty"),
        (b"noise\n", "empty"),
        (started(), "open"),
        (started() + event("session.end", 1), "done"),
        (started() + event("session.end", 1, {"reason": "all_done"}), "done"),
        (started() + event("session.end", 1, {"reason": "stopped"}), "stopped"),
        (started() + event("session.end", 1) + started(sid="s2", command="resume"), "open"),
    ],
)
def test_the_last_session_says_how_a_run_stands(log: bytes, condition: str) -> None:
    fold = Fold()
    fold.feed(log)
    assert condition_of(fold.state) == condition
