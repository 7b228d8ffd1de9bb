"""What a person reads when the database cannot be used: one line, with the next step and without a password."""

import pytest

from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, HoldfastError, StorageFailed
from holdfast.store.postgres.address import has_password, shown
from tests.support.postgres import PostgresServer


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:secret@db.example.org:5432/work?sslmode=require", "postgresql://me@db.example.org:5432/work"),
        ("postgresql://db/work", "postgresql://db/work"),
        ("postgresql:///work?host=/run&password=secret", "postgresql:///work"),
        ("postgresql://me:se@cret@db/work", "postgresql://me@db/work"),
    ],
)
def test_address_is_shown_without_its_password(url: str, expected: str) -> None:
    assert shown(url) == expected
    assert has_password(url) == ("secret" in url or "cret@" in url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://nobody:secret@127.0.0.1:1/x", "127.0.0.1:1/x does not answer.*holdfast doctor"),
        ("postgresql://nobody:secret@/x?host=/nonexistent", "does not answer"),
        ("postgresql://db/x?search_path=Has%20Space", "search_path"),
        ("postgresql://db:port/x", "not a URL of a store"),
    ],
)
def test_store_that_cannot_be_used_is_told_in_one_line(home: str, url: str, expected: str) -> None:
    with pytest.raises(HoldfastError, match=expected) as refused:
        Home(home, url).run_ids()
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_database_that_is_missing_is_told(home: str, postgres: PostgresServer) -> None:
    url = postgres.url.replace("/postgres?", "/nothing?")
    with pytest.raises(StorageFailed, match=r"no such database.*createdb"):
        Home(home, url).run_ids()


def test_other_text_is_not_taken_for_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "mysql://db/x")
    with pytest.raises(BadInput, match="looks like postgresql://"):
        Home()


def test_setting_of_the_user_chooses_the_store(tmp_path: object, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    file = f"{tmp_path}/config.toml"
    monkeypatch.setenv("HOLDFAST_CONFIG", file)
    monkeypatch.setenv("HOLDFAST_HOME", home)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    with open(file, "w", encoding="utf-8") as config:
        config.write('store = "postgresql://me@db.example.org/work"\n')
    assert Home().place == "postgresql://me@db.example.org/work"
    assert Home(home).place == home  # a folder that is named keeps its runs in files
    with open(file, "w", encoding="utf-8") as config:
        config.write('store = "postgresql://me:secret@db.example.org/work"\n')
    with pytest.raises(BadInput, match=r"must not contain a password.*pgpass"):
        Home()
