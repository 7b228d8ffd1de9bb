"""The picture in the exported page: nothing but shapes, links that lead somewhere, and readable with many lanes."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationOpened, TurnEnded, TurnStarted
from holdfast.core.events.session import SessionEnd
from holdfast.core.events.task import TaskCompleted, TaskFailed
from tests.cli.program import Program
from tests.cli.runs import make_run, resume_run

RUN = "picture-abcdef"
HOSTILE = '"><script>alert(1)</script>'


class Picture(HTMLParser):
    """The shapes of the picture with their classes, and what the page links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.shapes: list[tuple[str, dict[str, str | None]]] = []
        self.titles: list[str] = []
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self._depth = 0
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._depth += tag == "svg"
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if self._depth:
            self.shapes.append((tag, given))
            self._in_title = tag == "title"
            if tag == "a":
                self.links.add(str(given["href"]).removeprefix("#"))

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "svg"
        self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.titles.append(data)

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.shapes if name in str(attributes.get("class", "")).split()]


def work(name: str, *, failed: str | None = None) -> list[Event]:
    end = TaskCompleted(task_id=name) if failed is None else TaskFailed(task_id=name, error=failed)
    return [
        ConversationOpened(conversation=f"c-{name}", agent="claude", role="worker", task=name),
        TurnStarted(conversation=f"c-{name}", turn=f"t-{name}"),
        TurnEnded(conversation=f"c-{name}", turn=f"t-{name}", stop_reason="end_turn"),
        end,
    ]


def exported(holdfast: Program) -> Picture:
    page = holdfast("export", RUN, "-o", "page.html").out.strip()
    return Picture(Path(page).read_text(encoding="utf-8"))


def test_death_and_resume_are_seen(holdfast: Program) -> None:
    """The first session was killed in the morning, the second ended in the evening; each mark leads to its event."""
    make_run(holdfast.home, RUN, *work("T-1"), *work("T-2", failed="iter_cap"), TurnStarted(conversation="c", turn="x"))
    resume_run(holdfast.home, RUN, *work("T-3"), SessionEnd(reason="all_done"))
    picture = exported(holdfast)
    assert [box["class"] for box in picture.of_class("session")] == ["session killed", "session ended"]
    assert len(picture.of_class("death")) == 1
    assert len(picture.of_class("idle")) == 1
    assert any("runner died: the session (run) was killed" in title for title in picture.titles)
    assert any(title.startswith("T-2: failed") for title in picture.titles)
    assert len(picture.of_class("turn")) == 4
    assert picture.links <= picture.ids
    assert picture.links


@pytest.mark.parametrize("count", [5, 500])
def test_each_task_has_a_lane_whatever_their_number(holdfast: Program, count: int) -> None:
    names = [f"T-{number}" for number in range(count)]
    make_run(holdfast.home, RUN, *(event for name in names for event in work(name)), SessionEnd(reason="all_done"))
    picture = exported(holdfast)
    (svg,) = [attributes for tag, attributes in picture.shapes if tag == "svg"]
    assert int(str(svg["height"])) <= 1_700
    rows = sorted(float(str(box["y"])) for box in picture.of_class("turn"))
    assert len(set(rows)) == count
    labels = sorted(float(str(label["y"])) for label in picture.of_class("lane"))
    assert min(second - first for first, second in pairwise(labels)) >= 9


def test_hostile_names_are_text(holdfast: Program) -> None:
    make_run(holdfast.home, RUN, *work(HOSTILE, failed=HOSTILE), SessionEnd(reason="failed"))
    picture = exported(holdfast)
    assert {tag for tag, _ in picture.shapes} <= {"svg", "a", "title", "rect", "path", "text", "g"}
    assert any(HOSTILE in title for title in picture.titles)
    assert not any(re.match(r"on|style", name) for _, attributes in picture.shapes for name in attributes)
