"""Lines of a log as they are sent: encoded once, however many clients read them."""

import msgspec

from holdfast.core.log.codec import Line
from holdfast.engine.queries.logs import LogLine

_MAX_MALFORMED_CHARS = 10_000


def encode_line(line: LogLine) -> bytes:
    """Return `{"position": …, "event": {…}}`; `{"position": …, "malformed": "…", "reason": "…"}` for damage."""
    if isinstance(line.line, Line) and _is_text(line.raw):
        return b'{"position":%d,"event":%b}' % (line.cursor, line.raw.strip())
    reason = "not UTF-8" if isinstance(line.line, Line) else line.line.reason
    text = line.raw[:_MAX_MALFORMED_CHARS].decode(errors="replace")
    return msgspec.json.encode({"position": line.cursor, "malformed": text, "reason": reason})


def _is_text(raw: bytes) -> bool:
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
