"""The slash commands of a chat that go back or branch off: /points, /rewind, /fork."""

from holdfast.app.cli.chat.client import ChatClient
from holdfast.app.text.rewind import plan_lines, point_lines
from holdfast.app.text.screen import printable
from holdfast.app.text.spans import Row, Span
from holdfast.core.events.rewind import RewindAxis
from holdfast.core.work.names import short_point_name
from holdfast.engine.commands.fork import fork_run
from holdfast.engine.commands.rewind import PreparedRewind, RewindRequest, prepare_rewind, rewind_run
from holdfast.engine.queries.points import list_points
from holdfast.leaf.errors import BadInput, HoldfastError

_INDENT = 2


class RewindCommands:
    """`/rewind` shows what would change; `/rewind yes` does what was shown last."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._shown: tuple[RewindRequest, PreparedRewind] | None = None

    async def points(self, width: int) -> list[str]:
        points = await list_points(self._client.home, self._client.run_id)
        return [*point_lines(points, width - _INDENT), "/rewind POINT goes back to one, /fork POINT branches off"]

    async def rewind(self, argument: str) -> list[str]:
        if argument == "yes":
            return await self._carry_out()
        request = _request_of(argument.split())
        prepared = await prepare_rewind(self._client.home, self._client.run_id, request)
        self._shown = RewindRequest(f"@{prepared.plan.position}", None, request.only, request.undo), prepared
        return [*plan_lines(prepared.plan), "/rewind yes does it"]

    async def fork(self, argument: str) -> list[str]:
        at, _, name = argument.partition(" ")
        fork = await fork_run(self._client.home, self._client.run_id, at or None, name.strip() or None)
        return [
            f"forked at {printable(short_point_name(fork.point))}; this chat is unchanged",
            f"continue the fork with: holdfast chat {printable(fork.run_id)}",
        ]

    async def _carry_out(self) -> list[str]:
        if self._shown is None:
            raise BadInput("nothing was shown yet; /rewind POINT shows what would change")
        request, prepared = self._shown
        self._client.is_stopped_by_rewind = self._client.has_runner
        self._shown = None
        try:
            done = await rewind_run(self._client.home, self._client.run_id, request, prepared)
        except HoldfastError:
            self._client.is_stopped_by_rewind = False
            raise
        self._client.conversation_id = None  # it may not exist any more
        if await self._client.queued():
            await self._client.restart_runner()
        saved = [f"saved  {printable(ref)}" for ref in done.salvaged]
        return [*saved, "the agent knows nothing of what was taken back; /rewind undo takes it back"]


def _request_of(words: list[str]) -> RewindRequest:
    if words == ["undo"]:
        return RewindRequest(undo=True)
    only = RewindAxis.BOTH
    if words and words[-1] in (RewindAxis.FILES, RewindAxis.CONVERSATION):
        only = RewindAxis(words.pop())
    if len(words) > 1:
        raise BadInput("/rewind [POINT] [files|conversation], /rewind undo, or /rewind yes; /points lists the points")
    return RewindRequest(words[0] if words else "-1", None, only)


def text_rows(lines: list[str]) -> list[Row]:
    """The lines, the last of them as a hint."""
    *facts, hint = lines
    return [[], *([Span(f"{' ' * _INDENT}{line}")] for line in facts), [Span(f"{' ' * _INDENT}{hint}", "dim")], []]
