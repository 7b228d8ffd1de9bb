"""A chat at the terminal: what was said scrolls by, and below it are what comes, what waits, and the editor."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.layout import Float, FloatContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style

from holdfast.app.cli.chat.client import MAX_RESTARTS, ChatClient, finish_sending
from holdfast.app.cli.chat.commands import HELP, ChatCommands, Editing, Leave, error_rows, note
from holdfast.app.cli.chat.completion import ChatCompleter
from holdfast.app.cli.chat.editor import CONTINUATION, MARK, Keyboard, make_bindings, make_buffer, make_output
from holdfast.app.cli.chat.text_editor import edit_in_terminal
from holdfast.app.cli.chat.transcript import Transcript, agent_name
from holdfast.app.cli.live.request_keys import DENY, RequestKeys
from holdfast.app.text.live_area import elapsed
from holdfast.app.text.screen import display_width, printable, shorten_to_width, terminal_width, uses_colour
from holdfast.app.text.spans import Row, Span, paint_rows, row_text
from holdfast.core.conversation.agent_commands import command_name
from holdfast.core.conversation.states import ENDED_STATES
from holdfast.core.events import Event
from holdfast.core.events.conversation import TurnEnded, TurnInterrupted
from holdfast.core.log.codec import Line
from holdfast.core.summary.limits import pause_text
from holdfast.engine.queries.chats import chat_files
from holdfast.engine.queries.live.follow import RunUpdate
from holdfast.leaf.clock import now
from holdfast.leaf.errors import EXIT_OK, HoldfastError, NothingToDo

_REFRESH_S = 1.0  # how often times are updated, and the death of a runner is seen
_MIN_TEXT_INTERVAL_S = 0.03  # between two updates of what agents are saying
_LEAVE_S = 15.0  # how long leaving waits for messages that are on their way to a runner
_MAX_QUEUED = 3  # shown
_MENU_ROWS = 8
_STYLES = {"bold": "bold", "dim": "ansibrightblack", "red": "ansired", "green": "ansigreen", "yellow": "ansiyellow"}
_STYLES |= {"cyan": "ansicyan"}
_ANSWER = re.compile(r"(y|yes|a|always|n|no)(?:\s+(.*))?", re.IGNORECASE | re.DOTALL)


class ChatScreen:
    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._transcript = Transcript(terminal_width)
        self._commands = ChatCommands(client, self._transcript, terminal_width, edit_in_terminal)
        self._history = InMemoryHistory()
        self._completer = ChatCompleter(
            self._known_commands, lambda: chat_files(client.home, client.run_id, client.state, client.target)
        )
        self._buffer = make_buffer(self._completer, self._submit, self._history)
        self._tasks: set[asyncio.Task[None]] = set()
        self._order = asyncio.Lock()  # messages, and commands after them, in the order in which they were written
        self._sending: dict[int, str] = {}
        self._queued: list[str] = []
        self._requests = RequestKeys(client.home, client.run_id)
        self._editing: Editing | None = None
        self._has_runner = False
        self._interrupted = False
        self._turn: str | None = None  # the newest turn of the conversation that is typed to
        self._shown_request: str | None = None  # since the person typed something, and in this turn
        self._restarts = 0  # of runners that died with messages to deliver
        self._ended_blank = False
        self._printing = asyncio.Lock()
        self._keyboard = Keyboard(sys.stdin)
        self._app = self._make_app()

    async def run(self, first: str | None = None) -> int:
        """Until the person leaves. `first` is a message to send at once."""
        await self._show_past()
        await self._resume_requests()
        if first is not None:
            self._start(self._attempt(self._say(first)))
        watching = [asyncio.ensure_future(part) for part in (self._follow(), self._refresh())]
        hints = asyncio.ensure_future(self._receive_hints())
        shown = asyncio.ensure_future(self._app.run_async(set_exception_handler=False))
        try:
            done, _ = await asyncio.wait((*watching, shown), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*watching, hints):
                task.cancel()
            await asyncio.gather(*watching, hints, return_exceptions=True)
            if not shown.done():
                self._quit()
                await asyncio.wait({shown})
            self._client.remember()
        await self._leave()
        return EXIT_OK

    async def _leave(self) -> None:
        goes_on = "the agent goes on" if self._client.is_working else "nothing is lost"
        if self._tasks and not all(task.done() for task in self._tasks):
            self._write(note("sending your messages; Ctrl-C leaves at once"))
            if not await finish_sending(self._tasks, _LEAVE_S):
                self._write(note("your messages are stored; they are delivered when the run is next started"))
        run_id = self._client.run_id
        left = f"left {run_id}; {goes_on}"
        self._write([[Span(left, "dim")], [Span(f"Back with: holdfast chat {run_id}", "dim")]])

    # What is shown

    async def _show_past(self) -> None:
        client, state = self._client, self._client.state
        goal = printable(" ".join((state.run.goal if state.run is not None else "").split()))
        agent = client.conversation.agent
        head = f"chat {client.run_id}{f' · {agent_name(agent)}' if agent is not None else ''}"
        self._write(
            [
                [
                    Span(head, "bold"),
                    Span(shorten_to_width(f" · {goal}", max(0, terminal_width() - display_width(head))), "dim"),
                ]
            ]
        )
        self._write([[Span("Enter sends · Alt-Enter or \\ new line · Ctrl-C cancels the turn · /help", "dim")]])
        is_new = False
        async for update in client.past():
            for line in update.lines:
                rows = self._transcript.rows(line, update.state)
                if rows and client.seen is not None and line.cursor > client.seen and not is_new:
                    is_new = True
                    self._write(_ruled("while you were away"))
                self._write(rows)
        for text in self._transcript.sent:
            self._history.append_string(text)
        if client.conversation.turn is not None and not client.has_runner:
            self._write(
                note("the last turn was interrupted: its runner died. Your next message continues it", "yellow")
            )
        client.remember()

    async def _resume_requests(self) -> None:
        """Start a runner for what a dead one, or a dead sender, left undone; only then does it reach the agent."""
        if await self._client.waits_for_runner():
            self._write(note("what you asked before is not done yet; starting a runner for it", "yellow"))
            self._start(self._attempt(self._client.restart_runner()))
        elif not self._client.has_runner:
            self._write(await self._undelivered())

    async def _undelivered(self) -> list[Row]:
        """What waits for the next message, because the chat was stopped, or reached a limit."""
        count = len(await self._client.queued()) + self._client.has_unsent_goal
        what = "1 message was" if count == 1 else f"{count} messages were"
        text = f"{what} not delivered before the chat ended: /queue. Your next message starts it again"
        return note(text, "yellow") if count else []

    async def _follow(self) -> None:
        async for update in self._client.updates():
            self._has_runner = self._client.has_runner
            await self._read_queue()
            await self._print([row for line in update.lines for row in self._transcript.rows(line, update.state)])
            turn = self._client.conversation.turn
            if turn is not None and turn.turn != self._turn:  # the next Ctrl-C is its first
                self._interrupted, self._turn = False, turn.turn
            if _has_event(update, TurnEnded, TurnInterrupted):
                self._restarts = 0
                self._interrupted = False
                self._shown_request = None
                self._client.remember()

    async def _receive_hints(self) -> None:
        async for _ in self._client.hints():
            self._app.invalidate()

    async def _refresh(self) -> None:
        has_runner = self._has_runner
        while True:
            had_runner, has_runner = has_runner, self._client.has_runner
            self._has_runner = has_runner
            if had_runner and not has_runner:
                await self._runner_ended()
            await self._read_queue()
            self._app.invalidate()
            await asyncio.sleep(_REFRESH_S)

    async def _read_queue(self) -> None:
        with suppress(HoldfastError, OSError):
            self._queued = [message.text for message in await self._client.queued_now()]

    async def _runner_ended(self) -> None:
        """It was idle, or it died: then a message that it had read would wait for another one."""
        is_interrupted = self._client.conversation.turn is not None
        was_stopped, self._client.is_stopped_by_rewind = self._client.is_stopped_by_rewind, False
        if was_stopped:
            await self._print(note("the agent was stopped for the rewind"))
            return
        if self._restarts < MAX_RESTARTS and await self._client.waits_for_runner():
            self._restarts += 1
            self._start(self._attempt(self._client.restart_runner()))
            session = self._client.state.newest_session()
            how = "ended" if session is not None and session.ended else "died"
            await self._print(note(f"the runner {how}; starting another one for what you asked", "yellow"))
        elif is_interrupted:
            await self._print(note("the runner died; your next message continues the turn", "yellow"))
        elif not self._client.has_runner and not self._tasks:
            await self._print(await self._undelivered())

    async def _print(self, rows: Sequence[Row]) -> None:
        if not rows:
            self._app.invalidate()
            return
        async with self._printing:
            with self._keyboard.stay_raw():
                async with in_terminal():
                    self._write(rows)

    def _write(self, rows: Iterable[Row]) -> None:
        """Print rows with at most one blank line between them."""
        kept: list[Row] = []
        for row in rows:
            is_blank = not row_text(row).strip()
            if not (is_blank and self._ended_blank):
                kept.append(row)
            self._ended_blank = is_blank
        write_rows(kept)

    # The screen below

    def _make_app(self) -> Application[None]:
        editor = Window(
            BufferControl(self._buffer),
            wrap_lines=True,
            height=self._editor_height,
            dont_extend_height=True,
            get_line_prefix=lambda line, wrapped: [("class:mark", MARK if line == wrapped == 0 else CONTINUATION)],
        )
        body = HSplit(
            [
                Window(FormattedTextControl(self._live), dont_extend_height=True, wrap_lines=False),
                Window(FormattedTextControl(self._rule), height=1, wrap_lines=False),
                editor,
            ]
        )
        menu = Float(CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
        app: Application[None] = Application(
            layout=Layout(FloatContainer(body, [menu]), focused_element=editor),
            key_bindings=make_bindings(self._interrupt, self._quit),
            style=Style([("mark", "ansicyan bold")]),
            input=self._keyboard,
            output=make_output(sys.stdout, uses_colour=uses_colour()),
            erase_when_done=True,
            min_redraw_interval=_MIN_TEXT_INTERVAL_S,
        )
        app.ttimeoutlen = 0.05
        return app

    def _quit(self) -> None:
        if not self._app.is_done:
            self._app.exit()

    def _editor_height(self) -> Dimension:
        """Room for the menu of completions, which is below the text."""
        needs_menu = self._buffer.complete_state is not None
        return Dimension(min=_MENU_ROWS + 1 if needs_menu else 1)

    def _live(self) -> StyleAndTextTuples:
        state, size = self._client.state, self._app.output.get_size()
        rows = self._transcript.live_rows(state, self._client.text, max(3, size.rows // 2)) if self._has_runner else []
        rows += self._waiting_rows()
        return _fragments(rows)

    def _waiting_rows(self) -> list[Row]:
        rows: list[Row] = []
        request = self._requests.current(self._client.state)
        if request is not None:
            self._shown_request = request.key
            hint = f"{self._requests.hints(self._client.state)[request.key or '']} · or n and a reason; then Enter"
            rows += [[Span(f"  ? {shorten_to_width(request.text, terminal_width() - 5)}", "yellow")]]
            rows += [[Span(f"    {shorten_to_width(hint, terminal_width() - 5)}", "yellow")]]
        queued = [*self._queued, *(text for text in self._sending.values() if text not in self._queued)]
        if self._commands.attachments:
            names = ", ".join(attachment.name for attachment in self._commands.attachments)
            rows.append([Span(f"  {shorten_to_width(f'attached: {printable(names)}', terminal_width() - 4)}", "dim")])
        if self._awaits_first_turn:
            goal = " ".join((self._client.state.run.goal if self._client.state.run is not None else "").split())
            text = f"sent when the agent has started: {printable(goal)}"
            rows.append([Span(f"  {shorten_to_width(text, terminal_width() - 4)}", "dim")])
        if queued:
            rows.append([Span(f"  {self._queue_title()}", "dim")])
        for number, text in enumerate(queued[:_MAX_QUEUED], start=1):
            rows.append(
                [
                    Span(
                        f"   {number}  {shorten_to_width(printable(' '.join(text.split())), terminal_width() - 8)}",
                        "dim",
                    )
                ]
            )
        if len(queued) > _MAX_QUEUED:
            rows.append([Span(f"   … and {len(queued) - _MAX_QUEUED} more: /queue", "dim")])
        return rows

    def _queue_title(self) -> str:
        if self._client.is_working:
            return "queued until the next turn"
        if self._tasks or self._has_runner:
            return "sending; the agent is started if it does not run"
        return "waiting for a runner; your next message starts one"

    def _rule(self) -> StyleAndTextTuples:
        text = self._editing_text() or self._state_text()
        width = terminal_width()
        text = shorten_to_width(f"{agent_name(self._client.conversation.agent)} · {text}", width - 5)
        rule = "─" * max(0, width - display_width(text) - 5)
        return _fragments([[Span("── ", "dim"), Span(text), Span(f" {rule}", "dim")]])

    def _editing_text(self) -> str:
        return f"changing queued message {self._editing.number}; Enter keeps it" if self._editing is not None else ""

    def _state_text(self) -> str:
        conversation = self._client.conversation
        if self._interrupted:
            is_working = conversation.turn is not None and self._has_runner
            return "cancelling; Ctrl-C again leaves" if is_working else "Ctrl-C again leaves"
        if conversation.turn is not None:
            if not self._has_runner:
                return "interrupted; your next message continues it"
            took = elapsed(conversation.turn.started, now()) if conversation.turn.started else ""
            return f"working {took} · Ctrl-C cancels".replace("  ", " ")
        if conversation.state in ENDED_STATES:
            return f"{conversation.state}; a message starts a new conversation"
        if self._awaits_first_turn or (self._has_runner and conversation.state == "starting"):
            return "starting"
        if conversation.limited:
            paused = pause_text(self._client.state, conversation.agent, now())
            return paused or ("continuing" if self._has_runner else "your next message continues it")
        return "waiting for you"

    @property
    def _awaits_first_turn(self) -> bool:
        """A runner prepares the worktree and runs the checks once before it starts the agent."""
        return self._has_runner and not self._client.state.conversations

    def _known_commands(self) -> Mapping[str, str]:
        """Our own commands, and the agent's."""
        own = {f"/{name}": about for name, about in self._client.conversation.commands.items()}
        return {**HELP, **{name: about for name, about in own.items() if name not in HELP}}

    # What a person does

    def _submit(self, buffer: Buffer) -> bool:
        text = buffer.text.strip()
        self._interrupted = False
        if text:
            self._start(self._handle(text))
        return False

    def _start(self, part: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(part)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, text: str) -> None:
        try:
            await self._act(text)
        except Leave:
            self._quit()
        except Editing as editing:
            self._editing = editing
            self._buffer.document = Document(editing.text, len(editing.text))
        except (HoldfastError, OSError) as error:
            # The text is not put back into the editor: what is typed next would be appended to it.
            is_message = not self._commands.knows(text)
            await self._print([*error_rows(error), *(note("not sent; ↑ brings it back") if is_message else [])])

    async def _act(self, text: str) -> None:
        editing, self._editing = self._editing, None
        if editing is not None:
            async with self._order:
                await self._client.edit(editing.message_id, text)
        elif await self._answers(text):
            pass
        elif text.startswith("/") and self._commands.knows(text):
            async with self._order if self._commands.waits_for_earlier(text) else nullcontext():
                rows = await self._commands.run(text)
            await self._read_queue()
            await self._print(rows)
        elif (name := command_name(text)) is not None:
            if name not in self._client.conversation.commands:
                about = f"/{name} is no command here, nor one that the agent lists; it gets it as text"
                self._start(self._print(note(about)))  # not waited for: the next message must not overtake this one
            await self._say(text)
        else:
            await self._say(text.removeprefix("/") if text.startswith("//") else text)

    async def _answers(self, text: str) -> bool:
        """Answer the oldest open request, if the text is an answer."""
        answer, (shown, self._shown_request) = _ANSWER.fullmatch(text), (self._shown_request, None)
        if answer is not None and shown is not None and shown not in self._client.state.permissions:
            await self._print(
                note(f"that request was answered already; {text!r} again sends it as a message", "yellow")
            )
            return True
        if answer is None or self._requests.current(self._client.state) is None:
            return False
        choice, reason = answer[1][0].lower(), (answer[2] or "").strip()
        if choice != DENY and reason:  # a message that begins with yes
            return False
        line = await self._requests.answer(self._client.state, choice, reason or None)
        await self._print(note(line, "yellow") if line is not None else [])
        await self._client.restart_runner()
        return True

    async def _say(self, text: str) -> None:
        number = max(self._sending, default=0) + 1
        self._sending[number] = text
        self._app.invalidate()
        try:
            async with self._order:
                await self._send(text)
        finally:
            del self._sending[number]

    async def _send(self, text: str) -> None:
        attachments, self._commands.attachments = self._commands.attachments, []
        try:
            await self._client.say(text, attachments)
        except BaseException:
            self._commands.attachments = [*attachments, *self._commands.attachments]
            raise

    def _interrupt(self) -> None:
        """Cancel the turn; the second time, leave."""
        if self._interrupted:
            self._quit()
            return
        self._interrupted, self._editing = True, None
        if self._client.is_working or self._client.is_turn_due or self._queued or self._sending:
            self._start(self._cancel())
        self._app.invalidate()

    async def _cancel(self) -> None:
        try:
            await self._client.cancel()
        except NothingToDo as error:
            await self._print(note(str(error), "yellow"))
        except (HoldfastError, OSError) as error:
            await self._print(error_rows(error))

    async def _attempt(self, action: Awaitable[None]) -> None:
        try:
            await action
        except (HoldfastError, OSError) as error:
            await self._print(error_rows(error))


def _has_event(update: RunUpdate, *events: type[Event]) -> bool:
    types = {event.type for event in events}
    return any(isinstance(line.line, Line) and line.line.type in types for line in update.lines)


def _ruled(title: str) -> list[Row]:
    return [[], [Span(f"── {title} {'─' * max(0, terminal_width() - len(title) - 5)}", "yellow")]]


def write_rows(rows: Iterable[Row]) -> None:
    """Print rows; a terminal that is gone ends the client some other way."""
    with suppress(OSError):
        sys.stdout.write("".join(f"{line}\n" for line in paint_rows(rows)))
        sys.stdout.flush()


def _fragments(rows: Sequence[Row]) -> StyleAndTextTuples:
    found: StyleAndTextTuples = []
    for number, row in enumerate(rows):
        found += [(_STYLES.get(span.colour or "", ""), span.text) for span in row]
        if number + 1 < len(rows):
            found.append(("", "\n"))
    return found
