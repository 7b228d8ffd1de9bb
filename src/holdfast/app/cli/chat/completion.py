"""Completion in the editor: `/commands`, and `@file` for the files that git knows in the worktree."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

_MAX_FILES = 50  # offered at once
_KEEP_S = 5.0  # how long the list of files is used


class ChatCompleter(Completer):
    """`commands` are names with a description; `files` lists the paths to complete."""

    def __init__(
        self, commands: Callable[[], Mapping[str, str]], files: Callable[[], Awaitable[Sequence[str]]]
    ) -> None:
        self._commands = commands
        self._list_files = files
        self._files: Sequence[str] = ()
        self._listed_at = float("-inf")

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002 - prompt_toolkit's
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before and "\n" not in before:
            for name, about in self._commands().items():
                if name.startswith(before):
                    yield Completion(name, -len(before), display_meta=about)
            return
        word = document.get_word_before_cursor(WORD=True)
        if word.startswith("@"):
            for path in matching_files(self._files, word[1:]):
                yield Completion(f"@{path}", -len(word))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        now = asyncio.get_running_loop().time()
        if "@" in document.text_before_cursor and now - self._listed_at > _KEEP_S:
            self._files, self._listed_at = await self._list_files(), now
        for completion in self.get_completions(document, complete_event):
            yield completion


def matching_files(files: Sequence[str], typed: str) -> list[str]:
    """Those that start with the text, then those whose name does, then those that contain it."""
    text = typed.casefold()
    ranked = ((_rank(path.casefold(), text), path) for path in files)
    found = sorted((rank, path) for rank, path in ranked if rank is not None)
    return [path for _, path in found[:_MAX_FILES]]


def _rank(path: str, text: str) -> int | None:
    if path.startswith(text):
        return 0
    if path.rpartition("/")[2].startswith(text):
        return 1
    return 2 if text in path else None
