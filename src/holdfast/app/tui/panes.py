"""Scrollable panes that draw only the visible rows."""

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
_SELECTED_STYLE = Style(reverse=True)


class Pane(ScrollView, can_focus=True):
    """Rows that can be scrolled. With `follow`, a pane at its end stays at its end."""

    BINDINGS = [
        Binding("up,k", "scroll_up", show=False),
        Binding("down,j", "scroll_down", show=False),
    ]

    def __init__(self, pane_id: str, *, follow: bool = False) -> None:
        super().__init__(id=pane_id)
        self._rows: Sequence[Row] = ()
        self._follow = follow

    def set_rows(self, rows: Sequence[Row], *, reset_scroll: bool = False) -> None:
        """Replace the rows. `reset_scroll` is for the rows of another run: scroll to the start, or follow the end."""
        at_end = reset_scroll or self.scroll_offset.y >= self.max_scroll_y
        self._rows = rows
        self.virtual_size = Size(self.row_width, len(rows))
        if self._follow and at_end:
            self._scroll_to_end()
        elif reset_scroll:
            self.scroll_home(animate=False, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        if self._follow:
            self._scroll_to_end()

    def _scroll_to_end(self) -> None:
        self.scroll_end(animate=False, immediate=True, force=True)  # force: there may be no scroll bar yet

    @property
    def row_width(self) -> int:
        """The width of a row, in columns."""
        return self.scrollable_content_region.width

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        return self._strip(self._rows[index] if index < len(self._rows) else ())

    def _strip(self, row: Row, overlay: Style | None = None) -> Strip:
        segments = [Segment(span.text, STYLES[span.colour]) for span in row]
        strip = Strip(segments).adjust_cell_length(self.row_width, Style())
        return strip.apply_style(self.rich_style + overlay if overlay is not None else self.rich_style)


class SelectionPane(Pane):
    """Rows with a selection. A row is computed when it becomes visible."""

    BINDINGS = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1_000_000_000)", show=False),
        Binding("end", "move(1_000_000_000)", show=False),
    ]

    class SelectionChanged(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, pane_id: str) -> None:
        super().__init__(pane_id)
        self._count = 0
        self._selected_index = 0
        self._row_at: Callable[[int], Row] = lambda _: ()

    def set_choices(self, count: int, selected: int, row_at: Callable[[int], Row]) -> None:
        self._count, self._selected_index, self._row_at = count, selected, row_at
        self.virtual_size = Size(self.row_width, count)
        self._scroll_to_selection()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        if index >= self._count:
            return self._strip(())
        return self._strip(self._row_at(index), _SELECTED_STYLE if index == self._selected_index else None)

    def action_move(self, by: int) -> None:
        self._set_selection(self._selected_index + by)

    def action_page(self, by: int) -> None:
        self._set_selection(self._selected_index + by * max(1, self.size.height - 1))

    def on_click(self, event: events.Click) -> None:
        self._set_selection(event.y + self.scroll_offset.y)

    def on_resize(self) -> None:
        self._scroll_to_selection()

    def _set_selection(self, index: int) -> None:
        index = max(0, min(index, self._count - 1))
        if index != self._selected_index and self._count:
            self._selected_index = index
            self._scroll_to_selection()
            self.refresh()
            self.post_message(self.SelectionChanged(index))

    def _scroll_to_selection(self) -> None:
        if self._count and self.size.height:
            self.scroll_to_region(Region(0, self._selected_index, 1, 1), animate=False, immediate=True, force=True)
