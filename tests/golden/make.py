"""The golden lines: one of every event type, byte for byte as version 1 writes it, in one chain.

They are what users have on disk, so a line that is there is never changed or removed, and must load for ever.
A new event type, or a new field of an old one (with a default: old lines lack it), gets its line by

    1. its example in tests/core/examples.py, every field of it filled
    2. .venv/bin/python -m tests.golden.make      (adds lines that are missing, touches no other)

Should a line have to look different in any other way, that is a new version of the envelope: raise VERSION, give
the old one an upcaster, and begin a file for the new version beside this one, which stays.
"""

import sys
from pathlib import Path

import msgspec

from holdfast.core.events import TYPES, Envelope, Event
from holdfast.core.log import chain
from holdfast.core.log.codec import Line, data_of, encode, parse
from tests.core.examples import EXAMPLES

EVENTS_V1 = Path(__file__).parent / "events-v1.jsonl"


def line(previous: str, seq: int, event: Event) -> bytes:
    envelope = Envelope(
        v=event.envelope_version,
        ts="2026-02-14T10:00:00.000Z",
        sid="f4e3d2c1b5a4",
        seq=seq,
        type=event.type,
        feature="auth-system",
        agent="service-eng",
        pane_id="%3",
        data=event,
        trace_id="0af7651916cd43dd8448eb211c80319c",
        span_id="b7ad6b7169203331",
    )
    return chain.seal(previous, encode(envelope))[0]


def fields_of(kind: type[Event]) -> set[str]:
    """The names that a type's fields have in a log."""
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def missing(there: bytes) -> bytes:
    """Lines for types, and for fields of types, that have none: ready to follow those that are there."""
    old = there.splitlines()
    heads = [parse(raw) for raw in old]
    shown = {(head.type, name) for head in heads if isinstance(head, Line) for name in data_of(head)}
    link = (chain.carried_link(old[-1]) if old else None) or chain.GENESIS
    new: list[bytes] = []
    for name, kind in TYPES.items():
        if not shown.issuperset((name, field) for field in fields_of(kind)):
            new.append(line(link, len(old) + len(new), EXAMPLES[name]))
            link = chain.carried_link(new[-1]) or chain.GENESIS
    return b"".join(raw + b"\n" for raw in new)


def main() -> None:
    more = missing(EVENTS_V1.read_bytes() if EVENTS_V1.exists() else b"")
    with EVENTS_V1.open("ab") as file:
        file.write(more)
    sys.stdout.write(f"{EVENTS_V1.name}: {len(more.splitlines())} lines added\n")


if __name__ == "__main__":
    main()
