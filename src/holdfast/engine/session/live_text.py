"""Offers what agents say on a unix socket, before it is in the log: one JSON hint a line (core/conversation/live_text).

Hints are for eyes only. A listener that does not read misses hints; when it reads again, it gets the open messages as
one that has just connected: all text that is not in the log yet. Nothing here is waited for, and nothing here can fail
the run. Text is redacted as the log redacts it, and what may be the beginning of a secret is held back until more text
shows that it is none, or until the log has the message.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import msgspec

from holdfast.agents.acp.recorder import EventRecorder
from holdfast.core.conversation.live_text import Hint
from holdfast.core.redaction.redaction import Redactor
from holdfast.engine.live_socket import ListeningSocket, is_trusted_peer, listen

_MIN_INTERVAL_S = 0.02  # between hints: text in between is sent together
_MAX_LISTENERS = 64
_SEND_BUFFER_BYTES = 64 * 1024  # for a listener, in the kernel
_READ_BYTES = 4096

_encode = msgspec.json.Encoder().encode


class LiveTextServer:
    """A context for one session of a run. Where no socket can be bound, it does nothing."""

    def __init__(self, run_folder: str, redactor: Redactor) -> None:
        self._run_folder = run_folder
        self._redactor = redactor
        self._listening: ListeningSocket | None = None
        self._listeners: set[_Listener] = set()
        self._turns: dict[str, _Turn] = {}  # the newest turn of each conversation
        self._changed: dict[str, None] = {}  # conversations with text that was not sent
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at = 0.0

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._listening = listen(self._run_folder)
        if self._listening is not None:
            self._loop.add_reader(self._listening.socket, self._accept, self._listening.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._listening is not None:
            self._loop.remove_reader(self._listening.socket)
            self._listening.close()
        for listener in [*self._listeners]:
            listener.close()

    def text_added(self, conversation_id: str, recorder: EventRecorder, _text: str, /) -> None:
        turn = self._current_turn(conversation_id, recorder)
        if turn is None or not self._listeners:
            return
        self._changed[conversation_id] = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._sent_at + _MIN_INTERVAL_S, self._send_changes)

    def text_taken(self, conversation_id: str, recorder: EventRecorder, speaker: str, text: str, /) -> None:
        turn = self._current_turn(conversation_id, recorder)
        if turn is not None:
            turn.recorded[speaker] = turn.recorded.get(speaker, 0) + len(self._redactor.redact_text(text))

    def _current_turn(self, conversation_id: str, recorder: EventRecorder) -> "_Turn | None":
        """Text outside a turn gets no hints: the log has no turn to count its characters in."""
        if recorder.turn_id is None:
            return None
        turn = self._turns.get(conversation_id)
        if turn is None or turn.turn_id != recorder.turn_id:
            turn = self._turns[conversation_id] = _Turn(conversation_id, recorder.turn_id, recorder)
        return turn

    # Hints

    def _send_changes(self) -> None:
        self._timer, self._sent_at = None, self._loop.time()
        changed, self._changed = self._changed, {}
        hints = (self._turns[conversation_id].new_text(self._redactor) for conversation_id in changed)
        data = _lines(hint for hint in hints if hint is not None)
        for listener in [*self._listeners] if data else ():
            listener.send(data)

    def open_messages(self) -> bytes:
        """Return hints of all text that the log does not have yet."""
        hints = (turn.open_message(self._redactor) for turn in self._turns.values())
        return _lines(hint for hint in hints if hint is not None)

    # Listeners

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listening.accept()
            if len(self._listeners) >= _MAX_LISTENERS or not is_trusted_peer(connection):
                connection.close()
                return
            listener = _Listener(connection, self)
            self._listeners.add(listener)
            listener.send(self.open_messages())

    def forget(self, listener: "_Listener") -> None:
        self._listeners.discard(listener)


class _Turn:
    """The text of a turn: how much is in the log, and how much was sent."""

    def __init__(self, conversation_id: str, turn_id: str, recorder: EventRecorder) -> None:
        self.turn_id = turn_id
        self.recorder = recorder
        self.recorded: dict[str, int] = {}  # characters by speaker, as the log counts them
        self._conversation_id = conversation_id
        self._sent: dict[str, int] = {}  # the same

    def open_message(self, redactor: Redactor) -> Hint | None:
        if self.recorder.turn_id != self.turn_id or (buffered := self.recorder.buffered_text) is None:
            return None
        speaker, text = buffered
        text = redactor.redact_text(text[: redactor.safe_length(text)])
        return Hint(self._conversation_id, self.turn_id, speaker, self.recorded.get(speaker, 0), text) if text else None

    def new_text(self, redactor: Redactor) -> Hint | None:
        """Return the text that was not sent yet."""
        hint = self.open_message(redactor)
        if hint is None:
            return None
        start = max(hint.offset, self._sent.get(hint.speaker, 0))
        if start >= hint.end:
            return None
        self._sent[hint.speaker] = hint.end
        return msgspec.structs.replace(hint, offset=start, text=hint.text[start - hint.offset :])


class _Listener:
    """A client. What it does not read in time is dropped."""

    def __init__(self, connection: socket.socket, server: LiveTextServer) -> None:
        self._connection = connection
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._unsent = b""
        self._is_blocked = False
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._loop.add_reader(connection, self._read)

    def send(self, data: bytes) -> None:
        """Send the data, or as much as the kernel accepts now. Until the rest is sent, everything else is dropped."""
        if self._is_blocked or not data:
            return
        sent = self._try_send(data)
        if sent is not None and sent < len(data):
            self._unsent, self._is_blocked = data[sent:], True
            self._loop.add_writer(self._connection, self._continue)

    def close(self) -> None:
        self._server.forget(self)
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._connection.close()

    def _continue(self) -> None:
        """The listener reads again: send the rest, then what it missed."""
        sent = self._try_send(self._unsent)
        if sent is None:
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._is_blocked = False
            self._loop.remove_writer(self._connection)
            self.send(self._server.open_messages())

    def _try_send(self, data: bytes) -> int | None:
        """Return how many bytes were sent; None when the listener is gone."""
        try:
            return self._connection.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.close()
            return None

    def _read(self) -> None:
        """Listeners send nothing: reading only shows that one disconnected."""
        try:
            if self._connection.recv(_READ_BYTES):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.close()


def _lines(hints: Iterator[Hint]) -> bytes:
    return b"".join(_encode(hint) + b"\n" for hint in hints)
