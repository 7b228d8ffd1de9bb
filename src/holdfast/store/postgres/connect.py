"""Opens connections to a Postgres server, and says in one line why it cannot.

The only module that knows the driver. It reads the password from the URL, `PGPASSWORD`, `PGPASSFILE` or `~/.pgpass`.
"""

import asyncio
import re
import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast.leaf.errors import BadInput, HoldfastError, StorageFailed
from holdfast.store.postgres.address import shown

try:
    import asyncpg
except ImportError:
    raise BadInput(
        "a store on Postgres needs the package asyncpg; install it with: pip install 'holdfast[cluster]'"
    ) from None

Connection = Any  # asyncpg has no types
DEFAULT_SCHEMA = "holdfast"
CONNECT_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 30.0  # of one statement: each is short, so a longer one waits for a dead connection
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

UniqueViolation = asyncpg.UniqueViolationError
_GONE = (  # nothing is known about what the connection was asked last
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)
DRIVER_ERRORS = (*_GONE, asyncpg.PostgresError)


def schema_of(url: str) -> str:
    """Return the schema that holds the tables: the URL's `search_path`, or `holdfast`."""
    try:
        given = parse_qs(urlsplit(url).query).get("search_path", [DEFAULT_SCHEMA])[-1]
    except ValueError as error:
        raise BadInput(f"{shown(url)} is not a URL of a store: {error}") from None
    if not _SCHEMA_NAME.fullmatch(given):
        raise BadInput(f"search_path={given!r} of the store must name one schema, in small letters, such as holdfast")
    return given


async def connect(
    url: str, *, timeout_s: float = CONNECT_TIMEOUT_S, command_timeout_s: float | None = None
) -> Connection:
    """Open a connection. Raises the driver's errors: `storage_error` explains them."""
    settings = {
        "application_name": "holdfast",
        "search_path": schema_of(url),
        "jit": "off",  # every statement is short
        "tcp_keepalives_idle": "10",  # a machine that is gone frees its locks
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
    try:
        connection = await asyncpg.connect(
            url,
            timeout=timeout_s,
            command_timeout=COMMAND_TIMEOUT_S if command_timeout_s is None else command_timeout_s,
            server_settings=settings,
        )
    except ValueError as error:  # also asyncpg.ClientConfigurationError
        raise BadInput(f"{shown(url)} is not a URL of a store: {error}") from None
    _keep_alive(connection)
    return connection


def _keep_alive(connection: Connection) -> None:
    """Have the kernel notice that the server's machine is gone, also while nothing is sent."""
    found = connection._transport.get_extra_info("socket")  # noqa: SLF001 - asyncpg has no other way
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, seconds in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
            found.setsockopt(socket.IPPROTO_TCP, option, seconds)


def is_connection_lost(error: BaseException) -> bool:
    """True when the connection is gone or the server is starting, so that another attempt may succeed."""
    return isinstance(error, (*_GONE, asyncpg.TooManyConnectionsError))


def storage_error(url: str, error: BaseException) -> HoldfastError:
    """Return the error in one line that a person can act on."""
    if isinstance(error, HoldfastError):
        return error
    where = f"the store at {shown(url)}"
    if isinstance(error, asyncpg.InvalidAuthorizationSpecificationError):  # also a wrong or missing password
        return StorageFailed(f"{where} refused the login: {error}; set PGPASSWORD, or PGPASSFILE to a password file")
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return StorageFailed(f"{where} has no such database; create it with: createdb")
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StorageFailed(f"{where} refused: {error}; grant the user CREATE on the database")
    if is_connection_lost(error):
        return StorageFailed(f"{where} does not answer: {_reason(error)}; check it with: holdfast doctor")
    return StorageFailed(f"{where} failed: {_reason(error)}; nothing more was written")


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__
