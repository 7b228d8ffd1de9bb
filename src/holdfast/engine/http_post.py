"""One HTTP POST request. It can be cancelled at any point, so a receiver that hangs holds up nothing.

Redirects are not followed and proxies not used: a signed message goes where the user said, or nowhere.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from holdfast import __version__

_MAX_HEADER_BYTES = 64 * 1024
_DEFAULT_PORTS = {"http": 80, "https": 443}


class PostFailed(Exception):
    """No answer came, or none that is HTTP."""


async def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> int:
    """Return the status of the answer. Raises `PostFailed` when there is none in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _post(url, body, headers)
    except TimeoutError:
        raise PostFailed(f"no answer within {timeout_s:g} s") from None
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise PostFailed(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None


async def _post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        place = f"scheme {parts.scheme or 'missing'}, host {parts.hostname or 'missing'}"  # the rest may be secret
        raise ValueError(f"it is not an http or https URL ({place})")
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    secure = True if parts.scheme == "https" else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, limit=_MAX_HEADER_BYTES, ssl=secure)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = {
            "Host": parts.netloc.rpartition("@")[2],
            "User-Agent": f"holdfast/{__version__}",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **headers,
        }
        if any(char in text for text in (target, *fields.values()) for char in "\r\n\0"):
            raise ValueError("a header or the URL contains a line break")
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"POST {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
        await writer.drain()
        status = await _status(reader)
        while 100 <= status < 200:  # noqa: PLR2004 - informational answers come before the real one
            status = await _status(reader)
        return status
    finally:
        with suppress(OSError):
            writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    if not version.startswith(b"HTTP/") or not rest[:3].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(rest[:3])
