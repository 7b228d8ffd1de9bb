"""`holdfast chat`: talk with an agent at the terminal. The runner works elsewhere; this only looks and types."""

import argparse
import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.app.cli.arguments import Parser, utf8_text
from holdfast.app.text.screen import printable, terminal_width, warn
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_INTERRUPTED, BadInput, HoldfastError

if TYPE_CHECKING:
    from holdfast.app.cli.chat.client import ChatClient

_EXAMPLES = """\
  holdfast chat                                   continue this repository's newest chat, or begin one
  holdfast chat -m "why does login fail?"         begin or continue with this message
  holdfast chat --new --agent codex               begin another chat
  holdfast chat login-chat                        a chat by its name
  holdfast chat login-chat --add gemini -m "is this fix right?"     a second opinion, in the same worktree
  holdfast chat login-chat --json                 for programs: one JSON object a line, in and out"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "chat",
        "Talk with an agent at the terminal. The agent works in a worktree of its own; nothing reaches your branch\n"
        "before you accept it. Leaving, in any way, loses nothing: the agent goes on, and this command shows what\n"
        "happened meanwhile.",
        _EXAMPLES,
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="id, start of an id, or slug (default: the newest chat)")
    parser.add_argument("-m", "--message", type=utf8_text, metavar="TEXT", help="send this first")
    parser.add_argument("--new", action="store_true", help="begin another chat")
    parser.add_argument("--agent", type=utf8_text, metavar="NAME", help="the agent of a new chat")
    parser.add_argument("--name", type=utf8_text, metavar="SLUG", help="the name of a new chat")
    parser.add_argument(
        "--include-changes", action="store_true", help="a new chat starts with the uncommitted files of your checkout"
    )
    parser.add_argument("--add", type=utf8_text, metavar="AGENT", help="ask another agent too; needs --message")
    parser.add_argument(
        "--own-worktree", action="store_true", help="with --add: the agent works in a worktree of its own"
    )
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: here)")
    parser.add_argument(
        "--set", type=utf8_text, action="append", default=[], metavar="KEY=VALUE", help="a setting of a new chat"
    )
    options = parser.parse_args(arguments)
    _check(options)
    try:
        return asyncio.run(_chat(Home(), options))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _check(options: argparse.Namespace) -> None:
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if not options.json and not is_terminal:
        raise BadInput("not a terminal; use holdfast chat --json, or holdfast send RUN MESSAGE")
    if options.add is not None and not options.message:
        raise BadInput("--add needs the question: holdfast chat RUN --add AGENT -m TEXT")
    if options.own_worktree and options.add is None:
        raise BadInput("--own-worktree is for another agent: holdfast chat RUN --add AGENT --own-worktree -m TEXT")
    if options.message is not None and not options.message.strip():
        raise BadInput("the message is empty")
    if options.new and (options.run is not None or options.add is not None):
        raise BadInput("--new begins another chat; name no RUN with it, and no --add")
    if options.run is not None and _is_for_new_chat(options):
        raise BadInput(
            "--agent, --name, --include-changes and --set are for a new chat; "
            "add an agent with --add, a model with /model"
        )


def _is_for_new_chat(options: argparse.Namespace) -> bool:
    return bool(options.agent is not None or options.name is not None or options.include_changes or options.set)


async def _chat(home: Home, options: argparse.Namespace) -> int:
    from holdfast.app.cli.chat.client import ChatClient  # slow imports that `--help` does not need

    run_id, first = await _find(home, options), options.message
    is_new = run_id is None
    if run_id is None:
        run_id, first = await _begin(home, options), None
    client = ChatClient(home, run_id)
    await client.open(from_now=options.json)
    if options.add is not None:
        client.conversation_id = await client.add(options.add, first, own_worktree=options.own_worktree)
        first = None
    return await _show(client, first, as_json=options.json, is_new=is_new)


async def _show(client: "ChatClient", first: str | None, *, as_json: bool, is_new: bool) -> int:
    if as_json:
        from holdfast.app.cli.chat.json_lines import JsonChat

        return await JsonChat(client, is_new=is_new).run(first)
    from holdfast.app.cli.chat.screen import ChatScreen

    return await ChatScreen(client).run(first)


async def _find(home: Home, options: argparse.Namespace) -> str | None:
    """Return the chat to continue; None to begin one."""
    from holdfast.app.cli.chat.wrapping import wrap_line
    from holdfast.engine.queries.chats import open_chats

    if options.run is not None:
        return home.find_run(options.run)
    if options.new or _is_for_new_chat(options):
        return None
    found = await open_chats(home, options.repo)
    if found and not options.json:
        others = f" ({len(found) - 1} more: holdfast ls)" if len(found) > 1 else ""
        text = f"continuing the newest chat here, {found[0].id}{others}; another one: holdfast chat --new"
        warn(wrap_line(text, terminal_width()))
    if not found and options.add is not None:
        raise BadInput("there is no chat here to add an agent to; begin one with: holdfast chat")
    return found[0].id if found else None


async def _begin(home: Home, options: argparse.Namespace) -> str:
    """Begin a chat, and ask for its first message until one is accepted: what was typed is never lost."""
    from holdfast.app.cli.chat.wrapping import wrap_line
    from holdfast.app.cli.live.run_session import flags_from_options
    from holdfast.app.cli.work.uncommitted import changes_left_out
    from holdfast.engine.commands.create import RunRequest
    from holdfast.engine.commands.start_chat import start_chat
    from holdfast.engine.queries.setup.settings import load_config

    options.parallel = options.allow = None
    flags = flags_from_options(options)
    config = load_config(options.repo, home=home, flags=flags)
    warn(config.warnings)
    if not options.include_changes and (left_out := await changes_left_out(options.repo)) is not None:
        warn(wrap_line(left_out, terminal_width()) if not options.json else [left_out])
    text = options.message
    if text is None and options.json:
        raise BadInput("a new chat needs its first message: holdfast chat --json -m TEXT")
    while True:
        text = text if options.message is not None else await _ask_first_message(options.repo, text or "")
        try:
            request = RunRequest(text, options.repo, options.name, flags=flags, include_changes=options.include_changes)
            run_id = await start_chat(home, request)
        except HoldfastError as error:
            if options.message is not None:
                raise
            warn([f"holdfast: {printable(str(error))}"])
        else:
            if options.json:
                with suppress(OSError):
                    print(json.dumps({"started": run_id}), flush=True)
            return run_id


async def _ask_first_message(repo: str, text: str) -> str:
    from holdfast.app.cli.chat.first_message import ask_first_message

    return await ask_first_message(repo, text)
