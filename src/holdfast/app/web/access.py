"""Who may use the server: the token, the cookie that stands for it, and the hosts and origins that are accepted.

The token equals a shell. It is in a file that only its user can read, never in an argument, the environment or a URL.
A browser gets a cookie instead, for a code that works once and that only this user can read, too.
"""

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.engine.home import Home
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.files.disk import make_directories, replace

FOLDER = "serve"  # in the home
_TOKEN_BYTES = 32
_CODE_BYTES = 24
_MAX_GUESSES, _GUESSING_PERIOD_S = 20, 60.0
_FAILPOINT = failpoint_pair("serve.token")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Refusal(NamedTuple):
    status: int
    error: str
    hint: str | None = None
    reason: str | None = None


class Headers(NamedTuple):
    """The parts of a request that decide whether it is served. `scheme` is http or websocket."""

    method: str
    host: str | None
    origin: str | None
    fetch_site: str | None
    authorization: str | None
    cookie: str | None
    content_type: str | None
    has_own_header: bool
    is_websocket: bool


def load_token(home: Home, *, new: bool = False) -> str:
    """Return the token of this home; create it when there is none, or when a new one is asked for."""
    path = home.file(FOLDER, "token")
    if not new:
        with suppress(OSError, UnicodeError), open(path, encoding="ascii") as file:
            if token := file.read().strip():
                os.chmod(path, 0o600)
                return token
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    make_directories(os.path.dirname(path))
    os.chmod(os.path.dirname(path), 0o700)
    _FAILPOINT.before()
    replace(path, f"{token}\n".encode())
    _FAILPOINT.after()
    return token


class Access:
    """Decides about each request. `names` are the hosts besides loopback, which a TLS proxy serves."""

    def __init__(self, token: str, port: int, names: tuple[str, ...] = ()) -> None:
        self._token = token
        self._names = frozenset(name.lower().rstrip(".") for name in names)
        self._codes: set[str] = set()
        self._guesses = _Guesses()
        self.cookie_name = f"holdfast-{port}"
        self._cookie = hmac.new(token.encode(), f"cookie {port}".encode(), hashlib.sha256).hexdigest()

    # the browser

    def new_code(self) -> str:
        """Return a code that gets the cookie, once."""
        code = secrets.token_urlsafe(_CODE_BYTES)
        self._codes = {code}
        return code

    def redeem(self, code: str) -> bool:
        if not any(hmac.compare_digest(code.encode(), known.encode()) for known in self._codes):
            return False
        self._codes.clear()
        return True

    def cookie_header(self, host: str | None) -> str:
        secure = "; Secure" if self._is_named(host) else ""
        return f"{self.cookie_name}={self._cookie}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict{secure}"

    # requests

    def refuse_host(self, headers: Headers) -> Refusal | None:
        """Refuse names that somebody else's DNS could point at this machine."""
        name = _host_name(headers.host)
        if name is None or not (_is_loopback(name) or name in self._names):
            return Refusal(403, f"this server does not serve the host {headers.host!r}", _HOST_HINT)
        return None

    def refuse(self, headers: Headers) -> Refusal | None:
        """Refuse a request to the API unless it comes from this server's own page, or has the token."""
        if (refusal := self.refuse_host(headers)) is not None:
            return refusal
        has_token = self._has_token(headers.authorization)
        if headers.authorization is not None and not has_token:
            if self._is_named(headers.host) and self._guesses.is_too_many():
                return Refusal(429, "too many wrong tokens; wait a minute")
            return Refusal(403, "the token is wrong", _TOKEN_HINT)
        changes = headers.is_websocket or headers.method not in ("GET", "HEAD")
        if headers.origin is not None and not self._is_own_origin(headers):
            return Refusal(403, f"requests from {headers.origin!r} are refused")
        if headers.origin is None and changes and not has_token:
            return Refusal(403, "a request without an origin needs the token", _TOKEN_HINT)
        if headers.fetch_site not in (None, "same-origin", "none") and not has_token:
            return Refusal(403, "requests from other sites are refused")
        if not has_token and not self._has_cookie(headers.cookie):
            return Refusal(
                403, "this browser is not signed in", "open the page with: holdfast serve --open", "signed_out"
            )
        if changes and not headers.is_websocket:
            return _refuse_form(headers)
        return None

    def _has_token(self, authorization: str | None) -> bool:
        scheme, _, given = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode())

    def _has_cookie(self, header: str | None) -> bool:
        pairs = (part.strip().partition("=") for part in (header or "").split(";"))
        given = [value for name, _, value in pairs if name == self.cookie_name]
        return any(hmac.compare_digest(value.encode(), self._cookie.encode()) for value in given)

    def _is_own_origin(self, headers: Headers) -> bool:
        """The origin must be one of our hosts, and on loopback the very server that is asked: ports share cookies."""
        with suppress(ValueError):
            origin = urlsplit(headers.origin or "")
            if origin.hostname in self._names:
                return origin.scheme == "https" or _is_loopback(origin.hostname or "")
            port = str(origin.port or _DEFAULT_PORTS.get(origin.scheme, ""))
            return (
                origin.scheme == "http"
                and _is_loopback(origin.hostname or "")
                and (origin.hostname, port) == (_host_name(headers.host), _host_port(headers.host))
            )
        return False

    def _is_named(self, host: str | None) -> bool:
        return _host_name(host) in self._names


class _Guesses:
    """Counts wrong tokens that come through a proxy. Who has the right one is not kept out by those who guess."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_MAX_GUESSES)

    def is_too_many(self) -> bool:
        now = time.monotonic()
        is_full = len(self._times) == _MAX_GUESSES and now - self._times[0] < _GUESSING_PERIOD_S
        self._times.append(now)
        return is_full


_HOST_HINT = "use http://127.0.0.1 or localhost; name another host with: holdfast serve --allow-host NAME"
_TOKEN_HINT = "send `Authorization: Bearer TOKEN`; the token is in the file that `holdfast serve --json` names"  # noqa: S105


def _refuse_form(headers: Headers) -> Refusal | None:
    """Refuse what a form of another page could send."""
    if (headers.content_type or "").partition(";")[0].strip().lower() != "application/json":
        return Refusal(415, "the body must be JSON", "send the header Content-Type: application/json")
    if not headers.has_own_header:
        return Refusal(403, "the header X-Holdfast is missing", "send the header X-Holdfast: 1")
    return None


def headers_of(scope: Mapping[str, object]) -> Headers:
    """Return the headers of an ASGI scope. One that is there twice is refused by having no acceptable value."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:  # type: ignore[attr-defined]
        key = name.decode("latin-1").lower()
        found[key] = value.decode("latin-1") if key not in found else f"{found[key]}, {value.decode('latin-1')}"
    is_websocket = scope["type"] == "websocket"
    return Headers(
        "GET" if is_websocket else str(scope["method"]),
        found.get("host"),
        found.get("origin"),
        found.get("sec-fetch-site"),
        found.get("authorization"),
        found.get("cookie"),
        found.get("content-type"),
        "x-holdfast" in found,
        is_websocket,
    )


def _host_name(host: str | None) -> str | None:
    """Return the name in a Host header, in lower case; None when it is not one, besides a port."""
    if host is None or _HOST.fullmatch(host) is None:
        return None
    with suppress(ValueError):
        return urlsplit(f"//{host}").hostname
    return None


def _host_port(host: str | None) -> str:
    with suppress(ValueError):
        return str(urlsplit(f"//{host}").port or "80")
    return ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False
