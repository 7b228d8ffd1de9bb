"""The store of a test, by its address: a home's folder, or a database's URL with the home for what stays local."""

from holdfast.store.base import Store
from holdfast.store.files.store import FileStore
from holdfast.store.postgres.address import is_postgres_url
from holdfast.store.postgres.store import PostgresStore

_SEPARATOR = " "


def database_address(url: str, home: str, lease_s: float = 300.0) -> str:
    """The address of a database, as text that a child process can be given."""
    return _SEPARATOR.join((url, home, str(lease_s)))


def database_url(address: str) -> str:
    return address.rsplit(_SEPARATOR, 2)[0]


def store_at(address: str) -> Store:
    if not is_postgres_url(address):
        return FileStore(address)
    url, home, lease_s = address.rsplit(_SEPARATOR, 2)
    return PostgresStore(url, home, ttl_s=float(lease_s))
