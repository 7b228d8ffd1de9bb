"""Dialogs: yes or no, one of several choices, or a line of text. Escape changes nothing."""

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from holdfast.app.text.screen import printable
from holdfast.app.tui.questions import NO, DialogQuestion


class QuestionDialog(ModalScreen[str | None]):
    """Returns the key of the answer, or the text; None if cancelled."""

    BINDINGS = [Binding("escape", "leave", show=False)]
    AUTO_FOCUS = "Input"

    def __init__(self, question: DialogQuestion) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        question = self._question
        with VerticalScroll(id="dialog"):
            yield Static(Text(printable(question.title), "bold"))
            for line in question.body:
                yield Static(Text(printable(line)))
            if question.answers:
                yield Static(Text())
                for key, label in question.answers.items():
                    yield Static(Text.assemble((f" {key} ", "reverse"), f"  {printable(label)}"))
            else:
                yield Input(compact=True)
            yield Static(Text("Esc cancels", "dim"))

    def on_mount(self) -> None:
        for line in self.query(Input):
            line.cursor_blink = False  # a blinking cursor would redraw an idle screen

    def on_key(self, event: Key) -> None:
        for key in self._question.answers:
            if key.lower() == event.key.lower():
                event.stop()
                self._dismiss_once(key if key != NO else None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._dismiss_once(event.value)

    def action_leave(self) -> None:
        self._dismiss_once(None)

    def _dismiss_once(self, answer: str | None) -> None:
        """A key may be pressed twice before the dialog is closed."""
        if self.is_current:
            self.dismiss(answer)
