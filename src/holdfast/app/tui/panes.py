"""Rows on the screen: only those that are seen are drawn, however many there are."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from holdfast.app.text.spans import Row

STYLES: dict[str | None, Style] = {
    None: Style(),
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    **{colour: Style(color=colour) for colour in ("red", "green", "yellow", "cyan")},
}
_CHOSEN = Style(reverse=True)


class Pane(ScrollView, can_focus=True):
    """Rows that can be scrolled. With `follow`, the last one stays in sight for those who look at it."""

    BINDINGS = [
        Binding("up,k", "scroll_up", show=False),
        Binding("down,j", "scroll_down", show=False),
    ]

    def __init__(self, name: str, *, follow: bool = False) -> None:
        super().__init__(id=name)
        self._rows: Sequence[Row] = ()
        self._follow = follow

    def put(self, rows: Sequence[Row], *, anew: bool = False) -> None:
        """`anew`: they are about something else, to be read from where one begins."""
        at_end = anew or self.scroll_offset.y >= self.max_scroll_y
        self._rows = rows
        self.virtual_size = Size(self.room, len(rows))
        if self._follow and at_end:
            self._to_end()
        elif anew:
            self.scroll_home(animate=False, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        if self._follow:
            self._to_end()

    def _to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True, force=True)  # though there is no bar yet

    @property
    def room(self) -> int:
        """Columns for a row."""
        return self.scrollable_content_region.width

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        return self._strip(self._rows[index] if index < len(self._rows) else ())

    def _strip(self, row: Row, over: Style | None = None) -> Strip:
        segments = [Segment(span.text, STYLES[span.colour]) for span in row]
        strip = Strip(segments).adjust_cell_length(self.room, Style())
        return strip.apply_style(self.rich_style + over if over is not None else self.rich_style)


class Choice(Pane):
    """Rows of which one is chosen. They are made when they are seen."""

    BINDINGS = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1_000_000_000)", show=False),
        Binding("end", "move(1_000_000_000)", show=False),
    ]

    class Moved(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._count = 0
        self._chosen = 0
        self._row_at: Callable[[int], Row] = lambda _: ()

    def offer(self, count: int, chosen: int, row_at: Callable[[int], Row]) -> None:
        self._count, self._chosen, self._row_at = count, chosen, row_at
        self.virtual_size = Size(self.room, count)
        self._keep_in_sight()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        if index >= self._count:
            return self._strip(())
        return self._strip(self._row_at(index), _CHOSEN if index == self._chosen else None)

    def action_move(self, by: int) -> None:
        self._choose(self._chosen + by)

    def action_page(self, by: int) -> None:
        self._choose(self._chosen + by * max(1, self.size.height - 1))

    def on_click(self, event: events.Click) -> None:
        self._choose(event.y + self.scroll_offset.y)

    def on_resize(self) -> None:
        self._keep_in_sight()

    def _choose(self, index: int) -> None:
        index = max(0, min(index, self._count - 1))
        if index != self._chosen and self._count:
            self._chosen = index
            self._keep_in_sight()
            self.refresh()
            self.post_message(self.Moved(index))

    def _keep_in_sight(self) -> None:
        if self._count and self.size.height:
            self.scroll_to_region(Region(0, self._chosen, 1, 1), animate=False, immediate=True, force=True)
