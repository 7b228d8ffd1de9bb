"""The line editor of a chat: Enter sends, Alt-Enter or a backslash starts a new line, Tab completes."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TextIO

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output

from holdfast.app.cli.chat.completion import ChatCompleter

MARK, CONTINUATION = "› ", "  "


class Keyboard(Vt100Input):
    """Can keep the terminal in raw mode while the chat prints above its editor.

    prompt_toolkit switches to cooked mode for that. The kernel would then show the keys that are pressed meanwhile, and
    take a Ctrl-D for the end of the input: the chat would never see it.
    """

    _stays_raw = False

    @contextmanager
    def stay_raw(self) -> Iterator[None]:
        self._stays_raw = True
        try:
            yield
        finally:
            self._stays_raw = False

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext() if self._stays_raw else super().cooked_mode()


def make_buffer(completer: ChatCompleter, accept: Callable[[Buffer], bool], history: InMemoryHistory) -> Buffer:
    buffer = Buffer(
        completer=completer,
        complete_while_typing=Condition(lambda: _may_complete(buffer)),
        accept_handler=accept,
        history=history,
        multiline=True,
    )
    return buffer


def _may_complete(buffer: Buffer) -> bool:
    """Only names of files and commands are offered, and only where one is being typed."""
    before = buffer.document.text_before_cursor
    return before.startswith("/") or buffer.document.get_word_before_cursor(WORD=True).startswith("@")


def make_bindings(interrupt: Callable[[], None], leave: Callable[[], None]) -> KeyBindings:
    bindings = KeyBindings()
    bindings.add("enter")(_enter)
    bindings.add("escape", "enter")(lambda event: event.current_buffer.newline(copy_margin=False))
    bindings.add("tab")(_tab)

    @bindings.add("c-c")
    @bindings.add("<sigint>")  # how Ctrl-C arrives while something is printed above the editor
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.append_to_history()
            event.current_buffer.reset()
        else:
            interrupt()

    @bindings.add("c-d")
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            leave()

    return bindings


def _enter(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
        buffer.complete_state = None  # it is in the text already
    elif buffer.document.char_before_cursor == "\\" and not buffer.document.text_after_cursor:
        buffer.delete_before_cursor()
        buffer.newline(copy_margin=False)
    else:
        buffer.validate_and_handle()


def _tab(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.complete_state is not None:
        buffer.complete_next()
    elif _may_complete(buffer):
        buffer.start_completion(select_first=True)
    else:
        buffer.insert_text("    ")


def make_output(stdout: TextIO, *, uses_colour: bool) -> Output:
    """Without cursor position requests: not every terminal answers them."""

    def size() -> Size:
        with suppress(OSError):
            columns, rows = os.get_terminal_size(stdout.fileno())
            return Size(rows or 24, columns or 80)
        return Size(24, 80)

    depth = None if uses_colour else ColorDepth.DEPTH_1_BIT
    return Vt100_Output(stdout, size, os.environ.get("TERM"), default_color_depth=depth, enable_cpr=False)
