"""The dashboard itself: puts up how the runs stand, and turns keys into deeds.

It follows the store by what the kernel tells: over runs that do not move it does nothing.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding
from textual.containers import Container
from textual.widgets import Input, Static

from holdfast.app.text.screen import plain
from holdfast.app.text.spans import Row, Span, fitted
from holdfast.app.tui.actions import Hands
from holdfast.app.tui.attach import attach_here
from holdfast.app.tui.attention import matching, ordered
from holdfast.app.tui.details import details, log_rows, wrapped
from holdfast.app.tui.dialogs import Asking
from holdfast.app.tui.help_text import HELP, NO_RUNS, complaint, keys_row
from holdfast.app.tui.panes import STYLES, Choice, Pane
from holdfast.app.tui.questions import Question
from holdfast.app.tui.run_list import columns_for, heading, headline, run_row
from holdfast.app.tui.selected_run import Chosen
from holdfast.app.tui.stylesheet import LOOKS
from holdfast.engine.queries.runs import ListedRun
from holdfast.engine.queries.watch_runs import Overview, oversee
from holdfast.leaf.clock import now
from holdfast.leaf.errors import HoldfastError

_MINUTE, _SECOND = 60.0, 1.0
_WIDE = 120  # columns from which the log stands beside the run


class Board(App[None]):
    CSS = LOOKS
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]
    BINDINGS = [
        Binding("enter", "attach"),
        Binding("a", "deed('approve')"),
        Binding("d", "deed('deny')"),
        Binding("r", "deed('resume')"),
        Binding("x", "deed('stop')"),
        Binding("s", "deed('send')"),
        Binding("slash", "filter"),
        Binding("escape", "everything"),
        Binding("question_mark", "help"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(self, home: str) -> None:
        super().__init__(ansi_color=True)
        self._home = home
        self._hands = Hands(home, self._ask, self._say)
        self._overview = Overview(())
        self._runs: Sequence[ListedRun] = ()  # those that are shown
        self._wanted = ""  # words that they must have
        self._chosen: Chosen | None = None
        self._shown: Chosen | None = None  # what the panes are about

    @property
    def defect(self) -> Exception | None:
        """What went wrong inside, if anything did: for the program's door, which tells it in one line."""
        return self._exception

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="heading")
        yield Choice("runs")
        with Container(id="lower"):
            yield Pane("run")
            yield Pane("log", follow=True)
        yield Input(id="filter", compact=True, placeholder="words to look for; Enter keeps, Esc clears")
        yield Static(id="told")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.query_one("#log").border_title = "log"
        self.query_one(Input).cursor_blink = False
        self.query_one(Choice).focus()
        self.run_worker(self._oversee())
        self.set_interval(_MINUTE, self._draw_list)
        self._seconds = self.set_interval(_SECOND, self._draw_run, pause=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    # What comes in

    async def _oversee(self) -> None:
        try:
            await oversee(self._home, self._take)
        except* (HoldfastError, OSError) as errors:
            self._complain(errors.exceptions[0])

    def _take(self, overview: Overview) -> None:
        before = self._row_of(self._chosen.run_id) if self._chosen is not None else None
        self._overview = overview
        if overview.unwatched:
            self._say(f"{overview.unwatched} runs are not followed: raise fs.inotify.max_user_watches")
        self._select()
        after = self._row_of(self._chosen.run_id) if self._chosen is not None else None
        if self._chosen is not None and before is not None and after is not None and before.status != after.status:
            self.run_worker(self._chosen.look_again())

    def _row_of(self, run_id: str) -> ListedRun | None:
        return next((run for run in self._overview.runs if run.id == run_id), None)

    def _select(self) -> None:
        """Choose what to show, and keep to the run that was chosen; when it is gone, the one in its place."""
        place = self._place()
        self._runs = ordered(matching(self._overview.runs, self._wanted))
        if self._chosen is None or self._chosen.run_id not in [run.id for run in self._runs]:
            self._look_at(min(place, len(self._runs) - 1))
        self._draw_list()

    def _place(self) -> int:
        wanted = self._chosen.run_id if self._chosen is not None else None
        return next((at for at, run in enumerate(self._runs) if run.id == wanted), 0)

    def _look_at(self, place: int) -> None:
        self.workers.cancel_group(self, "chosen")
        self._chosen = None
        if place >= 0:
            self._chosen = Chosen(self._home, self._runs[place].id, self._draw_chosen)
            self.run_worker(self._chosen.follow(), group="chosen")
        else:
            self._draw_run()

    def on_choice_moved(self, event: Choice.Moved) -> None:
        self._look_at(event.index)

    # What is shown

    def _draw(self) -> None:
        self._draw_list()
        self._draw_run()
        width = self.size.width
        self.query_one("#keys", Static).update(_text(fitted(keys_row(width), width)))

    def _draw_list(self) -> None:
        pane = self.query_one(Choice)
        width, moment, runs = pane.room, now(), self._runs
        columns = columns_for(runs, moment, width)
        pane.offer(len(runs), self._place(), lambda index: run_row(runs[index], moment, columns))
        self.query_one("#head", Static).update(_text(fitted(headline(self._overview.runs, len(runs)), width)))
        self.query_one("#heading", Static).update(_text(fitted(heading(columns), width) if runs else []))

    def _draw_chosen(self, chosen: Chosen) -> None:
        if chosen is self._chosen:  # not one that was left meanwhile
            self._draw_run()

    def _draw_run(self) -> None:
        chosen, run, log = self._chosen, self.query_one("#run", Pane), self.query_one("#log", Pane)
        anew, self._shown = chosen is not self._shown, chosen
        run.border_title = plain(chosen.run_id) if chosen is not None else ""
        run.put(self._run_rows(chosen, run.room), anew=anew)
        log.put(log_rows(chosen.lines, log.room) if chosen is not None else [], anew=anew)
        at_work = chosen is not None and chosen.view is not None and chosen.view.status == "running"
        (self._seconds.resume if at_work else self._seconds.pause)()

    def _run_rows(self, chosen: Chosen | None, width: int) -> list[Row]:
        if chosen is None:
            nothing = [f"No run has “{self._wanted}”; Esc shows all of them."] if self._wanted else NO_RUNS
            return [[Span(plain(line))] for line in nothing]
        if chosen.problem is not None:
            return [*wrapped(chosen.problem, width, most=6, colour="red")]
        if chosen.view is None:
            return []
        return details(chosen.view, chosen.needs, now(), width)

    def _say(self, words: str, colour: str | None = None) -> None:
        rows = wrapped(words, self.size.width - 2, most=3, colour=colour)
        self.query_one("#told", Static).update(Text("\n").join(map(_text, rows)))

    def _complain(self, error: BaseException) -> None:
        self._say(complaint(error), "red")

    # What keys do

    def action_deed(self, name: str) -> None:
        if self._chosen is None:
            self._say("there is no run to do that with", "red")
            return
        self.run_worker(self._done(getattr(self._hands, name)(self._chosen.run_id)), group="deeds")

    async def _done(self, deed: Coroutine[Any, Any, str | None]) -> None:
        try:
            self._say(await deed or "")
        except (HoldfastError, OSError) as error:
            self._complain(error)

    async def _ask(self, question: Question) -> str | None:
        return await self.push_screen_wait(Asking(question))

    def action_attach(self) -> None:
        run = self._row_of(self._chosen.run_id) if self._chosen is not None else None
        if run is None:
            self._say("there is no run to attach to", "red")
        elif run.status != "running":
            self._say(f"nobody is at work on {run.id} ({run.status}); r resumes it", "red")
        else:
            try:
                with self.suspend():
                    attach_here(self._home, run.id)
            except SuspendNotSupported:
                self._say(f"not in this terminal: holdfast attach {run.id}", "red")

    def action_help(self) -> None:
        self.push_screen(Asking(Question("Keys", HELP, {"q": "back"})))

    def action_filter(self) -> None:
        line = self.query_one(Input)
        line.display = True
        line.focus()

    def action_everything(self) -> None:
        self.query_one(Input).value = ""
        self._leave_filter()

    @on(Input.Changed, "#filter")  # not a line of a dialog
    def _filtered(self, event: Input.Changed) -> None:
        self._wanted = event.value
        self._select()

    @on(Input.Submitted, "#filter")
    def _leave_filter(self) -> None:
        line = self.query_one(Input)
        line.display = bool(line.value)
        self.query_one(Choice).focus()


def _text(row: Row) -> Text:
    return Text.assemble(*((span.text, STYLES[span.colour]) for span in row), no_wrap=True, end="")
