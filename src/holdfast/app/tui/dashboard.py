"""The dashboard: draws the runs and handles keys.

It does not poll: the kernel reports changes, so idle runs cost nothing.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Container
from textual.widgets import Input, Static

from holdfast.app.text.screen import printable, status_text
from holdfast.app.text.spans import Row, Span, fit_row
from holdfast.app.tui.actions import DashboardActions
from holdfast.app.tui.attach import attach_here
from holdfast.app.tui.attention import filter_runs, sort_by_attention
from holdfast.app.tui.details import detail_rows, log_rows, wrap_rows
from holdfast.app.tui.dialogs import QuestionDialog
from holdfast.app.tui.help_text import HELP, NO_RUNS, error_line, keys_row
from holdfast.app.tui.panes import STYLES, Pane, SelectionPane
from holdfast.app.tui.questions import DialogQuestion
from holdfast.app.tui.run_list import choose_columns, heading_row, run_row, summary_row
from holdfast.app.tui.selected_run import SelectedRun
from holdfast.app.tui.stylesheet import STYLESHEET
from holdfast.core.run_status import RunStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.live.watch_runs import Overview, watch_all_runs
from holdfast.engine.queries.runs import ListedRun
from holdfast.leaf.clock import now
from holdfast.leaf.errors import HoldfastError

_LIST_REFRESH_S, _RUN_REFRESH_S = 60.0, 1.0
_WIDE_COLUMNS = 120  # from this width on, the log is beside the run


class Dashboard(App[None]):
    CSS = STYLESHEET
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE_COLUMNS, "-wide")]
    BINDINGS = [
        Binding("enter", "attach"),
        Binding("a", "act('approve')"),
        Binding("d", "act('deny')"),
        Binding("r", "act('resume')"),
        Binding("x", "act('stop')"),
        Binding("s", "act('send')"),
        Binding("b", "act('rewind')"),
        Binding("f", "act('fork')"),
        Binding("slash", "filter"),
        Binding("escape", "clear_filter"),
        Binding("question_mark", "help"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(self, home: Home) -> None:
        super().__init__(ansi_color=True)
        self._home = home
        self._dashboard_actions = DashboardActions(home, self._ask, self._show_message)
        self._overview = Overview(())
        self._runs: Sequence[ListedRun] = ()  # shown in the list
        self._filter_text = ""  # words that their rows must contain
        self._selected: SelectedRun | None = None
        self._displayed: SelectedRun | None = None  # shown in the panes

    @property
    def defect(self) -> Exception | None:
        """The error that ended the dashboard, for `main` to print in one line."""
        return self._exception

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="heading")
        yield SelectionPane("runs")
        with Container(id="lower"):
            yield Pane("run")
            yield Pane("log", follow=True)
        yield Input(id="filter", compact=True, placeholder="filter; Enter keeps it, Esc clears it")
        yield Static(id="message")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.query_one("#log").border_title = "log"
        self.query_one(Input).cursor_blink = False
        self.query_one(SelectionPane).focus()
        self.run_worker(self._watch_runs())
        self.set_interval(_LIST_REFRESH_S, self._draw_list)
        self._run_timer = self.set_interval(_RUN_REFRESH_S, self._draw_run, pause=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    # Updates

    async def _watch_runs(self) -> None:
        try:
            await watch_all_runs(self._home, self._show_overview)
        except* (HoldfastError, OSError) as errors:
            self._show_error(errors.exceptions[0])

    def _show_overview(self, overview: Overview) -> None:
        before = self._listed_run(self._selected.run_id) if self._selected is not None else None
        self._overview = overview
        if overview.unwatched:
            self._show_message(f"{overview.unwatched} runs are not watched: raise fs.inotify.max_user_watches")
        self._update_selection()
        after = self._listed_run(self._selected.run_id) if self._selected is not None else None
        if self._selected is not None and before is not None and after is not None and before.status != after.status:
            self.run_worker(self._selected.refresh())

    def _listed_run(self, run_id: str) -> ListedRun | None:
        return next((run for run in self._overview.runs if run.id == run_id), None)

    def _update_selection(self) -> None:
        """Keep the selected run; if it is gone, select the run in its place."""
        index = self._selected_index()
        self._runs = sort_by_attention(filter_runs(self._overview.runs, self._filter_text))
        if self._selected is None or self._selected.run_id not in [run.id for run in self._runs]:
            self._select_run(min(index, len(self._runs) - 1))
        self._draw_list()

    def _selected_index(self) -> int:
        run_id = self._selected.run_id if self._selected is not None else None
        return next((index for index, run in enumerate(self._runs) if run.id == run_id), 0)

    def _select_run(self, index: int) -> None:
        self.workers.cancel_group(self, "selected")
        self._selected = None
        if index >= 0:
            self._selected = SelectedRun(self._home, self._runs[index].id, self._draw_selected)
            self.run_worker(self._selected.follow(), group="selected")
        else:
            self._draw_run()

    def on_selection_pane_selection_changed(self, event: SelectionPane.SelectionChanged) -> None:
        self._select_run(event.index)

    # Drawing

    def _draw(self) -> None:
        self._draw_list()
        self._draw_run()
        width = self.size.width
        self.query_one("#keys", Static).update(_rich_text(fit_row(keys_row(width), width)))

    def _draw_list(self) -> None:
        if not self.is_running:  # it closes, and its widgets go before its workers end
            return
        pane = self.query_one(SelectionPane)
        width, moment, runs = pane.row_width, now(), self._runs
        columns = choose_columns(runs, moment, width)
        pane.set_choices(len(runs), self._selected_index(), lambda index: run_row(runs[index], moment, columns))
        self.query_one("#head", Static).update(_rich_text(fit_row(summary_row(self._overview.runs, len(runs)), width)))
        self.query_one("#heading", Static).update(_rich_text(fit_row(heading_row(columns), width) if runs else []))

    def _draw_selected(self, selected: SelectedRun) -> None:
        if selected is self._selected:  # another run may be selected by now
            self._draw_run()

    def _draw_run(self) -> None:
        if not self.is_running:
            return
        selected, run, log = self._selected, self.query_one("#run", Pane), self.query_one("#log", Pane)
        is_new, self._displayed = selected is not self._displayed, selected
        run.border_title = printable(selected.run_id) if selected is not None else ""
        run.set_rows(self._run_rows(selected, run.row_width), reset_scroll=is_new)
        log.set_rows(log_rows(selected.lines, log.row_width) if selected is not None else [], reset_scroll=is_new)
        is_running = selected is not None and selected.view is not None and selected.view.status == RunStatus.RUNNING
        (self._run_timer.resume if is_running else self._run_timer.pause)()

    def _run_rows(self, selected: SelectedRun | None, width: int) -> list[Row]:
        if selected is None:
            lines = [f"No run matches “{self._filter_text}”; Esc shows all runs."] if self._filter_text else NO_RUNS
            return [[Span(printable(line))] for line in lines]
        if selected.problem is not None:
            return [*wrap_rows(selected.problem, width, max_rows=6, colour="red")]
        if selected.view is None:
            return []
        return detail_rows(selected.view, selected.needs, now(), width, selected.text.open_texts())

    def _show_message(self, text: str, colour: str | None = None) -> None:
        if not self.is_running:
            return
        rows = wrap_rows(text, self.size.width - 2, max_rows=3, colour=colour)
        self.query_one("#message", Static).update(Text("\n").join(map(_rich_text, rows)))

    def _show_error(self, error: BaseException) -> None:
        self._show_message(error_line(error), "red")

    # Keys

    def action_act(self, name: str) -> None:
        if self._selected is None:
            self._show_message("no run is selected", "red")
            return
        self.run_worker(
            self._run_action(getattr(self._dashboard_actions, name)(self._selected.run_id)), group="actions"
        )

    async def _run_action(self, action: Coroutine[Any, Any, str | None]) -> None:
        try:
            self._show_message(await action or "")
        except (HoldfastError, OSError) as error:
            self._show_error(error)

    async def _ask(self, question: DialogQuestion) -> str | None:
        return await self.push_screen_wait(QuestionDialog(question))

    def action_attach(self) -> None:
        run = self._listed_run(self._selected.run_id) if self._selected is not None else None
        if run is None:
            self._show_message("no run is selected", "red")
        elif run.status != RunStatus.RUNNING:
            self._show_message(f"{run.id} is not running ({status_text(run.status)}); r resumes it", "red")
        else:
            try:
                with self.suspend():
                    attach_here(self._home, run.id)
            except SuspendNotSupported:
                self._show_message(
                    f"this terminal cannot be suspended; use another one: holdfast attach {run.id}", "red"
                )

    def action_help(self) -> None:
        self.push_screen(QuestionDialog(DialogQuestion("Keys", HELP, {"q": "back"})))

    def action_filter(self) -> None:
        line = self.query_one(Input)
        line.display = True
        line.focus()

    def action_clear_filter(self) -> None:
        self.query_one(Input).value = ""
        self._close_filter()

    @on(Input.Changed, "#filter")  # not the input of a dialog
    def _apply_filter(self, event: Input.Changed) -> None:
        self._filter_text = event.value
        self._update_selection()

    @on(Input.Submitted, "#filter")
    def _close_filter(self) -> None:
        line = self.query_one(Input)
        line.display = bool(line.value)
        self.query_one(SelectionPane).focus()


def _rich_text(row: Row) -> Text:
    return Text.assemble(*((span.text, STYLES[span.colour]) for span in row), no_wrap=True, end="")
