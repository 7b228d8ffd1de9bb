"""What is asked before something is done: yes or no, one of several, a line of words. Escape leaves all as it is."""

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from holdfast.app.text.screen import plain
from holdfast.app.tui.questions import NO, Question


class Asking(ModalScreen[str | None]):
    """Gives the key of the answer, or the words; None when there is none."""

    BINDINGS = [Binding("escape", "leave", show=False)]
    AUTO_FOCUS = "Input"

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        question = self._question
        with VerticalScroll(id="dialog"):
            yield Static(Text(plain(question.title), "bold"))
            for line in question.body:
                yield Static(Text(plain(line)))
            if question.answers:
                yield Static(Text())
                for key, words in question.answers.items():
                    yield Static(Text.assemble((f" {key} ", "reverse"), f"  {plain(words)}"))
            else:
                yield Input(compact=True)
            yield Static(Text("Esc leaves all as it is", "dim"))

    def on_mount(self) -> None:
        for one in self.query(Input):
            one.cursor_blink = False  # a screen that waits is idle

    def on_key(self, event: Key) -> None:
        for key in self._question.answers:
            if key.lower() == event.key.lower():
                event.stop()
                self._leave(key if key != NO else None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._leave(event.value)

    def action_leave(self) -> None:
        self._leave(None)

    def _leave(self, answer: str | None) -> None:
        """Once: a key may be pressed twice before the first has closed it."""
        if self.is_current:
            self.dismiss(answer)
