"""The slash commands of a chat at the terminal. Each returns the rows to show."""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from holdfast.app.cli.chat.client import ChatClient
from holdfast.app.cli.chat.rewind_commands import RewindCommands, text_rows
from holdfast.app.cli.chat.transcript import Transcript, agent_name, note_rows
from holdfast.app.cli.chat.wrapping import wrap_line
from holdfast.app.text.interview_plan import parse_plan, plan_for_editor, plan_lines
from holdfast.app.text.screen import pluralize, printable, shorten_to_width, terminal_width
from holdfast.app.text.spans import Row, Span
from holdfast.core.decide.chat import main_task
from holdfast.core.messages.attachments import Attachment, size_text
from holdfast.core.summary.spending import has_spent, spent_text, unpriced_count
from holdfast.engine.queries.diff import compare_run
from holdfast.leaf.errors import BadInput, HoldfastError, NothingToDo

_MAX_PATCH_LINES = 400
_HELP_COLUMN = 20
_OWN_WORKTREE = "--own-worktree"

HELP: Final[Mapping[str, str]] = {
    "/accept": "check, commit and merge the work so far; /accept finish ends the chat then",
    "/add": "[--own-worktree] AGENT TEXT: ask another agent, in the same worktree unless it gets its own",
    "/agent": "list the conversations; /agent NAME talks to another one",
    "/attach": "PATH: a file or picture for your next message; without PATH: list them; /attach none drops them",
    "/cancel": "cancel the turn (Ctrl-C)",
    "/compact": "shorten the agent's memory of the conversation, by the agent's own command",
    "/diff": "what changed since the last accepted work; /diff stat for the files only",
    "/drop": "N: take back a queued message",
    "/edit": "N: change a queued message",
    "/fork": "[POINT] [NAME]: a new chat with the past of this one",
    "/help": "this list",
    "/mode": "NAME: the agent's mode",
    "/model": "NAME: the agent's model",
    "/plan": "of an interview: show the plan; /plan edit changes it in your editor",
    "/points": "list the points that /rewind and /fork take",
    "/queue": "list the messages that wait for the next turn",
    "/quit": "leave; the agent goes on (Ctrl-D)",
    "/rewind": "[POINT]: take back turns and files, by default the newest turn; shows what first",
    "/show": "N: the input and the result of a tool call",
    "/status": "the agents, and what this chat did so far",
}

_KEYS = (
    ("Enter", "send"),
    ("Alt-Enter, \\ Enter", "new line"),
    ("@file", "send a file of the worktree; Tab completes"),
    ("Ctrl-C", "cancel the turn; twice: leave"),
    ("↑ ↓", "what you wrote before"),
    ("/name", "any other command goes to the agent, which may have its own"),
)


class Editing(Exception):
    """A queued message is to be changed in the editor."""

    def __init__(self, message_id: str, number: int, text: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id
        self.number = number
        self.text = text


# Done one after the other, with messages, in the order in which they were typed: what they do depends on those before.
_IN_ORDER: Final = frozenset(
    {
        "/accept",
        "/add",
        "/agent",
        "/attach",
        "/compact",
        "/drop",
        "/edit",
        "/fork",
        "/mode",
        "/model",
        "/plan",
        "/rewind",
    }
)


class Leave(Exception):
    """The person leaves."""


class ChatCommands:
    def __init__(
        self,
        client: ChatClient,
        transcript: Transcript,
        width: Callable[[], int],
        edit_text: Callable[[str], Awaitable[str]],
    ) -> None:
        """`edit_text` lets the person change a text in their editor."""
        self._edit_text = edit_text
        self._client = client
        self._transcript = transcript
        self._width = width
        self._rewinds = RewindCommands(client)
        self.attachments: list[Attachment] = []  # for the next message
        self._commands: Mapping[str, Callable[[str], Awaitable[list[Row]]]] = {
            "/accept": self._accept,
            "/add": self._add,
            "/agent": self._agent,
            "/attach": self._attach,
            "/compact": self._compact,
            "/cancel": self._cancel,
            "/diff": self._diff,
            "/drop": self._drop,
            "/edit": self._edit,
            "/fork": self._fork,
            "/help": self._help,
            "/mode": lambda value: self._option("mode", value),
            "/model": lambda value: self._option("model", value),
            "/plan": self._plan,
            "/points": self._points,
            "/queue": self._queue,
            "/quit": self._quit,
            "/rewind": self._rewind,
            "/show": self._show,
            "/status": self._status,
        }

    def knows(self, text: str) -> bool:
        return text.split(maxsplit=1)[0] in self._commands

    def waits_for_earlier(self, text: str) -> bool:
        """Whether a known command waits until the messages and commands before it are done."""
        return text.split(maxsplit=1)[0] in _IN_ORDER

    async def run(self, text: str) -> list[Row]:
        """Run a known command. Raises `Leave`, `Editing`, or an error of Holdfast."""
        name, _, argument = text.partition(" ")
        return await self._commands[name.strip()](argument.strip())

    async def _help(self, _: str) -> list[Row]:
        room = self._width() - _HELP_COLUMN - 3
        rows: list[Row] = []
        for name, about in (*HELP.items(), *_KEYS):
            first, *rest = wrap_line(about, room)
            rows.append([Span(f"  {name:{_HELP_COLUMN}}", "bold"), Span(first, "dim")])
            rows += [[Span(f"  {'':{_HELP_COLUMN}}{line}", "dim")] for line in rest]
        return [[], *rows, []]

    async def _quit(self, _: str) -> list[Row]:
        raise Leave

    async def _accept(self, argument: str) -> list[Row]:
        if argument not in ("", "finish", "--finish"):
            raise BadInput(f"/accept takes no {argument!r}; /accept finish ends the chat after the merge")
        await self._client.accept(finish=bool(argument))
        return []

    async def _attach(self, path: str) -> list[Row]:
        if path == "none":
            self.attachments = []
            return note("nothing is attached")
        if path:
            attachment = await self._client.attach(_unquoted(path))
            self.attachments = [one for one in self.attachments if one.id != attachment.id] + [attachment]
        found = ", ".join(f"{one.name} ({one.media_type}, {size_text(one.size)})" for one in self.attachments)
        return note(f"goes with your next message: {found}" if found else "nothing is attached; /attach PATH")

    async def _plan(self, argument: str) -> list[Row]:
        plan = self._client.state.interview
        if not self._client.state.is_interview:
            raise BadInput("only an interview has a plan: holdfast plan --interview GOAL")
        if plan is None:
            return note("the interviewer has not submitted a plan yet")
        if argument not in ("", "edit"):
            raise BadInput(f"/plan takes no {argument!r}; /plan edit opens your editor")
        if argument == "edit":
            changed = parse_plan(await self._edit_text(plan_for_editor(plan)))
            await self._client.edit_plan(changed.overview, changed.tasks, changed.seeds)
            return []
        return [row for line in plan_lines(plan) for row in note(line, "cyan")]

    async def _compact(self, _: str) -> list[Row]:
        await self._client.compact()
        return []

    async def _cancel(self, _: str) -> list[Row]:
        try:
            await self._client.cancel()
        except NothingToDo as error:
            return note(str(error), "yellow")
        return []

    async def _option(self, option: str, value: str) -> list[Row]:
        if not value:
            chosen = self._client.conversation.options.get(option) or getattr(self._client.conversation, option, None)
            return note(f"{option}: {chosen or 'the agent’s own choice'}; choose with /{option} NAME")
        await self._client.set_option(option, value)
        return [] if self._client.has_runner else note(f"{option} {value}: set when the agent is started next")

    async def _add(self, argument: str) -> list[Row]:
        own, rest = argument.split(maxsplit=1)[:1] == [_OWN_WORKTREE], argument.removeprefix(_OWN_WORKTREE).strip()
        agent, _, text = rest.partition(" ")
        if not text.strip():
            raise BadInput("name an agent and what to ask it: /add codex review what was done so far")
        self._client.conversation_id = await self._client.add(agent, text.strip(), own_worktree=own)
        return note(f"you now talk to {agent_name(agent)}; back with /agent 1")

    async def _agent(self, name: str) -> list[Row]:
        conversations = list(self._client.state.conversations.items())
        if name:
            numbered = enumerate(conversations, start=1)
            found = [
                key for number, (key, one) in numbered if name in (str(number), key, one.agent, agent_name(one.agent))
            ]
            if not found:
                raise BadInput(f"no agent {name!r} is in this chat; add it with /add {name} TEXT")
            self._client.conversation_id = found[0]
            return note(f"you now talk to {agent_name(self._client.conversation.agent)}")
        rows: list[Row] = [[]]
        for number, (key, one) in enumerate(conversations, start=1):
            mark = "›" if key == self._client.target else " "
            rows.append(
                [Span(f"  {mark} {number}  {agent_name(one.agent):16}"), Span(f"{one.role}  {one.state}", "dim")]
            )
        return [*rows, []] if conversations else note("no agent has been started yet")

    async def _queue(self, _: str) -> list[Row]:
        queued = await self._client.queued()
        width = self._width() - 8
        rows: list[Row] = [
            [Span(f"  {number:>3}  ", "dim"), Span(shorten_to_width(printable(" ".join(one.text.split())), width))]
            for number, one in enumerate(queued, start=1)
        ]
        return [[], *rows, *note("/edit N changes one, /drop N takes it back")] if queued else note("nothing is queued")

    async def _drop(self, argument: str) -> list[Row]:
        message = await self._queued(argument)
        await self._client.drop(message[1])
        if self._client.has_runner:  # the log says so
            return []
        return note(f"taken back: {' '.join(message[2].split())}")

    async def _edit(self, argument: str) -> list[Row]:
        number, _, text = argument.partition(" ")
        found = await self._queued(number)
        if not text.strip():
            raise Editing(found[1], found[0], found[2])
        await self._client.edit(found[1], text.strip())
        return []

    async def _queued(self, number: str) -> tuple[int, str, str]:
        queued = await self._client.queued()
        if not number.isdecimal() or not 0 < int(number) <= len(queued):
            raise BadInput(
                f"there is no queued message {number!r}; list them with /queue" if number else "which one? see /queue"
            )
        return int(number), queued[int(number) - 1].id, queued[int(number) - 1].text

    async def _show(self, argument: str) -> list[Row]:
        newest = str(max(self._transcript.entries, default=0))
        number = argument or newest
        rows = self._transcript.unfolded(int(number)) if number.isdecimal() else None
        if rows is None:
            raise BadInput(
                f"there is no tool call {argument or ''}".rstrip() + f" on the screen; the newest is {newest}"
            )
        return rows

    async def _diff(self, argument: str) -> list[Row]:
        if argument not in ("", "stat"):
            raise BadInput("/diff shows the patch, /diff stat only the files")
        task = self._client.conversation.task or main_task(self._client.state)
        found = await compare_run(self._client.home, self._client.run_id, task)
        if not found.files:
            return note("nothing changed since the last accepted work")
        rows: list[Row] = [[]]
        if not argument:
            lines = found.patch.decode(errors="replace").splitlines()
            rows += [
                [Span(f"  {printable(line.expandtabs(4))}", _patch_colour(line))] for line in lines[:_MAX_PATCH_LINES]
            ]
            if len(lines) > _MAX_PATCH_LINES:
                more = f"  … {len(lines) - _MAX_PATCH_LINES} more lines: holdfast diff {self._client.run_id} {task}"
                rows.append([Span(more, "dim")])
            rows.append([])
        for file in found.files:
            counts = "binary" if file.added is None else f"+{file.added} -{file.removed}"
            rows.append([Span(f"  {counts:>12}  ", "dim"), Span(printable(file.path))])
        return [*rows, []]

    async def _points(self, _: str) -> list[Row]:
        return text_rows(await self._rewinds.points(self._width()))

    async def _rewind(self, argument: str) -> list[Row]:
        return text_rows(await self._rewinds.rewind(argument))

    async def _fork(self, argument: str) -> list[Row]:
        return text_rows(await self._rewinds.fork(argument))

    async def _status(self, _: str) -> list[Row]:
        client = self._client
        rows: list[Row] = [
            [],
            [
                Span(f"  {client.run_id}  ", "bold"),
                Span("a runner works on it" if client.has_runner else "no runner: your next message starts one", "dim"),
            ],
        ]
        for one in await client.statuses():
            agent = "running" if one.is_agent_running else "not running"
            turns = f"{pluralize(one.turns, 'turn')}, {one.queued} queued"
            rows.append([Span(f"  {agent_name(one.agent):16}"), Span(f"{one.state}, {agent}, {turns}", "dim")])
            rows += [[Span(f"      {name}: {value}", "dim")] for name, value in one.options.items()]
        for key, task in client.state.tasks.items():
            rows.append([Span(f"  {key:16}"), Span(f"{pluralize(task.accepted, 'accepted iteration')}", "dim")])
        if has_spent(client.state):
            budget = client.state.budget
            tokens = budget.input_tokens + budget.output_tokens
            text = spent_text(tokens, budget.dollars, unpriced_count(client.state), budget.estimate)
            rows.append([Span(f"  {'spent':16}"), Span(text, "dim")])
        return [*rows, []]


def _unquoted(path: str) -> str:
    """The path as a shell would read it: that is how terminals write the name of a file that is dropped on them."""
    if os.path.exists(os.path.expanduser(path)):
        return path
    try:
        words = shlex.split(path)
    except ValueError:  # a quote without its end
        return path
    return words[0] if len(words) == 1 else path


def note(text: str, colour: str | None = "dim") -> list[Row]:
    return note_rows(text, terminal_width(), colour)


def error_rows(error: HoldfastError | OSError) -> list[Row]:
    return note(str(error), "red")


def _patch_colour(line: str) -> str | None:
    if line.startswith(("diff ", "index ", "--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
