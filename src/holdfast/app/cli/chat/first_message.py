"""Asks for the first message of a chat, which does not exist yet."""

import sys

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory

from holdfast.app.cli.chat.completion import ChatCompleter
from holdfast.app.cli.chat.editor import CONTINUATION, MARK, make_bindings, make_output
from holdfast.app.text.screen import paint, uses_colour
from holdfast.engine.queries.chats import checkout_files


async def ask_first_message(repo: str, text: str = "") -> str:
    """Return what the person wrote. Raises `KeyboardInterrupt` when they leave."""
    print(paint("New chat. Enter sends · Alt-Enter or \\ new line · @ names a file · Ctrl-C leaves", "dim"))
    session: PromptSession[str] = PromptSession(
        MARK,
        multiline=True,
        prompt_continuation=CONTINUATION,
        completer=ChatCompleter(dict, lambda: checkout_files(repo)),
        complete_while_typing=Condition(lambda: "@" in session.default_buffer.text),
        history=InMemoryHistory(),
        key_bindings=make_bindings(_leave, _leave),
        output=make_output(sys.stdout, uses_colour=uses_colour()),
        erase_when_done=True,
    )
    while not (text := await session.prompt_async(default=text)).strip():
        pass
    return text


def _leave() -> None:
    get_app().exit(exception=KeyboardInterrupt())
