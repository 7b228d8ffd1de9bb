"""Events that say who wrote them and in which order, so that a log can be held against what was sent to it."""

from collections.abc import Iterable

from holdfast.core.events import Event
from holdfast.core.events.budget import UsageRecorded
from holdfast.core.events.effect import EffectIntended
from holdfast.core.events.session import SessionStart
from holdfast.core.events.task import TaskCompleted
from holdfast.core.log.codec import CODEC, Line, parse

Label = tuple[str, int]

START = SessionStart(command="run", feature="test")


def numbered(producer: str, number: int, size: int = 0) -> TaskCompleted:
    """The `number`-th event of a producer, with `size` more bytes in it."""
    return TaskCompleted(task_id=producer, summary=f"{number} " + "x" * size)


def used(tokens: int) -> UsageRecorded:
    return UsageRecorded(conversation="c", input_tokens=tokens)


def unencodable() -> Event:
    return EffectIntended(effect="e", kind="k", arguments={"not JSON": object()})


def events_in(data: bytes) -> list[Event]:
    """The typed events of whole lines; what is unreadable is left out."""
    found = []
    for raw in data.split(b"\n"):
        line = parse(raw)
        if isinstance(line, Line):
            event = CODEC.event(line)
            assert event is not None, f"of a known type: {line.type}"
            found.append(event)
    return found


def labels_in(data: bytes) -> list[Label]:
    """Who wrote which event, in the order of the log."""
    return [label_of(event) for event in events_in(data) if isinstance(event, TaskCompleted)]


def label_of(event: TaskCompleted) -> Label:
    assert event.summary is not None
    return str(event.task_id), int(event.summary.split()[0])


def by_producer(labels: Iterable[Label]) -> dict[str, list[int]]:
    """The numbers of each producer, in order."""
    numbers: dict[str, list[int]] = {}
    for producer, number in labels:
        numbers.setdefault(producer, []).append(number)
    return numbers
