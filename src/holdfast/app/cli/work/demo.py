"""`holdfast demo`: a run that survives two kills, with the proof."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.work import demo_log
from holdfast.app.text.events import describe_event, event_subject
from holdfast.app.text.screen import paint, printable, program_name, shorten_to_width, terminal_width
from holdfast.app.web.bundle_files import has_bundle
from holdfast.core.conversation.call_text import cut_lines
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationAttached, ToolCalled
from holdfast.core.messages.schema import UserAnswer
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, NeedKind, needs_of, with_detail
from holdfast.engine.commands.answer import send_answer
from holdfast.engine.commands.demo import demo as demos
from holdfast.engine.commands.demo.demo import Demo, DemoEvent, DemoFolder, Proof
from holdfast.engine.commands.demo.pipeline import PIPELINE_DEMO
from holdfast.engine.commands.demo.waves import WAVES_DEMO
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import EXIT_OK, HoldfastError

_GATE_LINES = 40
_EXAMPLES = """\
  holdfast demo              five tasks, agents in parallel, two kills, resume
  holdfast demo pipeline     from a goal to reviewed work; kills a planner, and the runner during a review
  holdfast demo --quiet      print only the result, for scripts
  holdfast demo log          only the log: killed writers, a torn write"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "demo",
        "Create a small repository and let scripted agents work on it in parallel. Kill an agent during its turn and\n"
        "the runner during a merge, both with SIGKILL. Resume the run and prove the result. The demo needs no key and\n"
        "no network. Exit code 1 if anything was lost or done twice.",
        _EXAMPLES,
    )
    parser.add_argument(
        "story", nargs="?", choices=("run", "pipeline", "log"), default="run", help="which demo (default: run)"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the result")
    options = parser.parse_args(arguments)
    home = Home()
    if options.story == "log":
        return demo_log.run_log_demo(home, quiet=options.quiet, as_json=options.json)
    demo = PIPELINE_DEMO if options.story == "pipeline" else WAVES_DEMO
    return asyncio.run(_run_demo(home, demo, quiet=options.quiet, as_json=options.json))


async def _run_demo(home: Home, demo: Demo, *, quiet: bool, as_json: bool) -> int:
    output = _discard if quiet or as_json else _print
    folder = demos.create_demo_folder(demos.new_demo_folder(home), demo)
    output(_title(1, demo.title))
    output(f"  {folder.repo}")
    run_id = await demos.create_demo_run(home, folder)
    kills = 0
    async with aclosing(demos.run_demo_session(home, run_id, demo, with_kills=True)) as demo_events:
        async for event in demo_events:
            kills += event.killed is not None
            output(_event_line(event, demo))
    output(_title(2, f"holdfast resume {run_id}"))
    async with aclosing(demos.run_demo_session(home, run_id, demo, with_kills=False)) as demo_events:
        async for event in demo_events:
            output(_event_line(event, demo))
    request = await _pending_approval(home, run_id) if demo.has_approval else None
    if request is not None:
        need, state = request
        output(_title(3, need.text))
        output(
            "\n".join(f"  {line}" for line in cut_lines(need.detail, _GATE_LINES, f"holdfast show {run_id} has more"))
        )
        if not await _is_approved(run_id, output, interactive=not (quiet or as_json)):
            return EXIT_OK
        await send_answer(home, run_id, state, need, UserAnswer(need.key or "", allow=True))
        async with aclosing(demos.run_demo_session(home, run_id, demo, with_kills=False)) as demo_events:
            async for event in demo_events:
                output(_event_line(event, demo))
    output(_title(4 if request is not None else 3, "The proof"))
    proof = await demos.collect_proof(home, run_id, folder)
    if as_json:
        result = {"run": run_id, "kills": kills, "merged": proof.merged, "whole": proof.whole, "ok": proof.holds}
        print(json.dumps({**result, "gate": request[0].key if request is not None else None}))
    elif quiet:
        print(f"{run_id}: {_proof_summary(proof, kills)}")
    else:
        _print("\n".join(_proof_lines(proof, kills)))
        _print(_next_steps(run_id, folder))
    return EXIT_OK if proof.holds and kills == 2 else HoldfastError.exit_code  # noqa: PLR2004 - an agent and a runner


async def _pending_approval(home: Home, run_id: str) -> tuple[Need, RunState] | None:
    """Return the run's request for approval, with its details."""
    state = (await view_run(home, run_id)).state
    request = next((need for need in needs_of(state) if need.want is NeedKind.APPROVAL), None)
    return (with_detail(request, state), state) if request is not None else None


async def _is_approved(run_id: str, output: Callable[[str | None], None], *, interactive: bool) -> bool:
    """Ask the person at the terminal. Without a terminal, the demo approves."""
    name = program_name()
    if not (interactive and sys.stdin.isatty() and sys.stdout.isatty()):
        output(f"\n  not a terminal, so the demo approves it: {name} approve {run_id}; {name} resume {run_id}\n")
        return True
    try:
        answer = await asyncio.to_thread(input, "\n  Press Enter to approve, n to leave it waiting: ")
    except EOFError:
        answer = "n"
    if answer.strip().lower() in ("", "y", "yes"):
        return True
    changes = f'{name} deny {run_id} --changes "…"'
    output(f"\n  Waiting for you: {name} approve {run_id}, or {changes}; then {name} resume {run_id}")
    return False


def _event_line(demo_event: DemoEvent, demo: Demo) -> str | None:
    if demo_event.killed is not None:
        where = {"agent": "during its turn", "runner": demo.kill_description}[demo_event.killed]
        return paint(f"  ⚡ kill -9 {demo_event.pid}: the {demo_event.killed}, {where}", "red")
    assert demo_event.event is not None, "a demo event is an event or a kill"
    assert demo_event.state is not None, "an event comes with its state"
    return _log_event_line(demo_event.event, demo_event.state)


def _log_event_line(event: Event, state: RunState) -> str | None:
    text = _event_text(event)
    if text is None:
        return None
    return f"  {printable(event_subject(event, state)):14} {shorten_to_width(text, terminal_width() - 18)}"


def _event_text(event: Event) -> str | None:
    if isinstance(event, ConversationAttached) and event.notice is not None:
        return paint(event.notice, "green")
    if isinstance(event, ToolCalled) and event.tool.startswith("Write "):
        return None
    return describe_event(event)


def _proof_lines(proof: Proof, kills: int) -> list[str]:
    graph = [f"  {line}" for line in proof.graph.splitlines()]
    return [*graph, "", f"  {paint(_proof_summary(proof, kills), 'green' if proof.holds else 'red')}"]


def _proof_summary(proof: Proof, kills: int) -> str:
    twice = [task for task, times in proof.merged.items() if times > 1]
    return (
        f"{kills} kills; {len(proof.merged)} tasks merged, {', '.join(twice) or 'none'} twice; "
        f"{proof.processes_left} processes left; log {'intact' if proof.whole else 'DAMAGED'}: "
        f"{proof.events} events, {proof.sessions} sessions"
    )


def _next_steps(run_id: str, demo_folder: DemoFolder) -> str:
    name = program_name()
    return (
        f"\nLook at the run:\n"
        f"  {name} show {run_id}\n"
        f"  {name} logs {run_id} --type 'task.*' --type 'run.*'\n"
        f"  {name} diff {run_id}\n"
        f"  {name} verify {run_id}\n"
        f"\nUse a real agent in your own repository:\n"
        f"  {name} agents ls                              list agents and how to install them\n"
        f'  {name} run "add a --verbose flag" --agent claude\n'
        f"  {_rerun_command(name, demo_folder)}"
        f"{_page_line(name, run_id)}"
    )


def _page_line(command: str, run_id: str) -> str:
    """Return how to open the run in the page; nothing when the page is not built."""
    return f"\n\nSee it in your browser:\n  {command} serve --open {run_id}" if has_bundle() else ""


def _rerun_command(command: str, demo_folder: DemoFolder) -> str:
    """Return the command that repeats the demo with a real agent."""
    goal = demo_folder.tasks_file if demo_folder.demo.tasks is not None else f'"{demo_folder.demo.goal}"'
    return f"{command} run --workflow {demo_folder.demo.workflow} {goal} --repo {demo_folder.repo} --agent codex"


def _title(number: int, text: str) -> str:
    return paint(f"\n{number}. {text}\n", "bold")


def _print(text: str | None) -> None:
    if text is not None:
        print(text, flush=True)


def _discard(_: str | None) -> None:
    pass
