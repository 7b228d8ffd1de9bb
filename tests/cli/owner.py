"""A process that owns a run, and does with it what the lines on its stdin say. Answers each with one line."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.core.events import TYPES, Event
from holdfast.core.events.conversation import MessageRecorded
from holdfast.core.events.session import SessionEnd, SessionStart
from holdfast.store.files.store import FileStore
from holdfast.store.run import open_run
from tests.cli.runs import log_of


class Owner:
    """The other end: starts such a process and speaks to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def say(self, text: str) -> None:
        """Have it append a message. Durable when this returns."""
        self._ask(f"say {text}")

    def append(self, *events: Event) -> None:
        """Have it append these, whatever they are. Durable when this returns."""
        for event in events:
            self._ask(f"append {event.type} {msgspec.json.encode(event).decode()}")

    def write_raw(self, text: str) -> None:
        """Have it write bytes that are no whole line, as one sees them while a write is under way."""
        self._ask(f"raw {text}")

    def end(self) -> None:
        """Have it end its session and go."""
        self._ask("end")
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(self, request: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"


@contextmanager
def owner_of(home: str, run_id: str) -> Iterator[Owner]:
    """A live owner; killed at the end, if it still lives."""
    command = [sys.executable, "-m", "tests.cli.owner", home, run_id]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=Path(__file__).parents[2]) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "owned\n"
            yield Owner(process)
        finally:
            process.kill()


async def _own(home: str, run_id: str) -> None:
    async with open_run(FileStore(home), run_id) as run:
        await run.begin_session(SessionStart(command="resume"))
        _answer("owned")
        for line in sys.stdin:
            command, _, text = line.rstrip("\n").partition(" ")
            if command == "say":
                await run.append(MessageRecorded(conversation="c", speaker="agent", text=text))
            elif command == "append":
                name, _, data = text.partition(" ")
                await run.append(msgspec.json.decode(data, type=TYPES[name]))
            elif command == "raw":
                with log_of(home, run_id).open("ab") as log:
                    log.write(text.encode())
            elif command == "end":
                await run.append(SessionEnd(reason="all_done"))
                break
            _answer("done")
    _answer("done")


def _answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_own(*sys.argv[1:]))
