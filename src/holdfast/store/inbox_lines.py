"""The lines of an inbox: the same envelope as the log's, with a message as data. The same in every backend."""

import os
from collections.abc import Iterator

import msgspec

from holdfast.core.events.base import Envelope
from holdfast.core.log.codec import DECODE_ERRORS, Line, Malformed, encode, parse
from holdfast.core.redaction.redaction import Redactor
from holdfast.leaf.clock import Clock
from holdfast.leaf.errors import BadInput
from holdfast.leaf.ids import new_sid
from holdfast.store.base import MESSAGE_TYPE, Batch, InboxEntry, Message
from holdfast.store.sequencer import RESERVED_NESTING, check_raw_json, check_readable, one_line


class MessageEncoder:
    """Encodes the messages of one sender, without the secrets of its environment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sid = new_sid()
        self._seq = 0
        self._redactor: Redactor | None = None

    @property
    def redactor(self) -> Redactor:
        if self._redactor is None:
            self._redactor = Redactor.from_environment(os.environ)
        return self._redactor

    def encode(self, message: Message) -> bytes:
        """Return the line, without its newline. Numbers and times follow the order of the calls."""
        message = msgspec.structs.replace(message, body=self.redactor.redact_json(message.body))
        data = msgspec.Raw(msgspec.json.encode(message))
        line = one_line(encode(Envelope(ts=self._clock(), sid=self._sid, seq=self._seq, type=MESSAGE_TYPE, data=data)))
        self._seq += 1
        check_readable(line, f"message {message.id}", 3 * RESERVED_NESTING)
        return line


def parse_messages(batch: Batch, earlier_ids: set[str], new_ids: set[str]) -> Iterator[InboxEntry]:
    """Parse the lines of a batch. Adds the ids of messages that are not in `earlier_ids` to `new_ids`."""
    cursor = batch.start
    for raw in batch.data.split(b"\n")[:-1]:
        cursor += len(raw) + 1
        line = parse(raw)
        if line is None:
            continue
        message = parse_message(line)
        if isinstance(message, str):
            yield InboxEntry(cursor, None, message)
        elif message.id in earlier_ids or message.id in new_ids:
            yield InboxEntry(cursor, None, f"duplicate of message {message.id}")
        else:
            new_ids.add(message.id)
            yield InboxEntry(cursor, message)


def parse_message(line: Line | Malformed) -> Message | str:
    if isinstance(line, Malformed):
        return line.reason
    if line.type != MESSAGE_TYPE:
        return f"not a message: {line.type}"
    try:
        message = msgspec.json.decode(line.data, type=Message)
        check_raw_json(message.body, "its body")
        check_readable(bytes(line.data), "it", 2 * RESERVED_NESTING)
    except (*DECODE_ERRORS, BadInput) as error:
        return f"not a message: {error}"
    return message
