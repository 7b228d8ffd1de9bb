"""`holdfast demo`: the promise, kept before your eyes."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.work import demo_log
from holdfast.app.text.events import subject, told
from holdfast.app.text.screen import paint, plain, program, shortened, terminal_width
from holdfast.core.conversation.call_text import cut
from holdfast.core.events import Event
from holdfast.core.events.conversation import ConversationAttached, ToolCalled
from holdfast.core.state import RunState
from holdfast.core.summary.needs import Need, Want, needs_of, with_detail
from holdfast.engine.commands.answer import give_answer
from holdfast.engine.demo import demo as rehearsal
from holdfast.engine.demo.demo import Play, Proof, Scene, Stage
from holdfast.engine.demo.pipeline import PIPELINE
from holdfast.engine.demo.waves import KELP
from holdfast.engine.inbox.answers import Answer
from holdfast.engine.places import default_home
from holdfast.engine.queries.logs import view_run
from holdfast.leaf.errors import OK, HoldfastError

_GATE_LINES = 40
_EXAMPLES = """\
  holdfast demo              the whole: five tasks, agents in parallel, two kills, resume
  holdfast demo pipeline     from a wish to reviewed work: a planner killed, the runner as a review fails, your approval
  holdfast demo --quiet      the verdict only, for scripts
  holdfast demo log          the log alone: writers killed in mid-stream, a torn end"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "demo",
        "Make a small repository, and let scripted agents build it in parallel. One agent is killed in the middle of\n"
        "a turn, the runner in the middle of a merge, both with SIGKILL; then the run is resumed, and the outcome is\n"
        "proven. Needs no key and no network. Exits 1 if anything was lost or done twice.",
        _EXAMPLES,
    )
    parser.add_argument("story", nargs="?", choices=("run", "pipeline", "log"), default="run", help="which one (run)")
    parser.add_argument("-q", "--quiet", action="store_true", help="only the verdict")
    options = parser.parse_args(arguments)
    home = default_home()
    if options.story == "log":
        return demo_log.show(home, quiet=options.quiet, as_json=options.json)
    play = PIPELINE if options.story == "pipeline" else KELP
    return asyncio.run(_show(home, play, quiet=options.quiet, as_json=options.json))


async def _show(home: str, play: Play, *, quiet: bool, as_json: bool) -> int:
    tell = _silent if quiet or as_json else _print
    stage = rehearsal.set_up(rehearsal.folder_for(home), play)
    tell(_title(1, play.title))
    tell(f"  {stage.repo}")
    run_id = await rehearsal.prepared(home, stage)
    deaths = 0
    async with aclosing(rehearsal.played(home, run_id, play, murderous=True)) as scenes:
        async for scene in scenes:
            deaths += scene.killed is not None
            tell(_scene(scene, play))
    tell(_title(2, f"holdfast resume {run_id}"))
    async with aclosing(rehearsal.played(home, run_id, play, murderous=False)) as scenes:
        async for scene in scenes:
            tell(_scene(scene, play))
    gate = await _gate(home, run_id) if play.gate else None
    if gate is not None:
        need, state = gate
        tell(_title(3, need.text))
        tell("\n".join(f"  {line}" for line in cut(need.detail, _GATE_LINES, f"holdfast show {run_id} has more")))
        if not await _is_approved(run_id, tell, asks=not (quiet or as_json)):
            return OK
        await give_answer(home, run_id, state, need, Answer(need.key or "", allow=True))
        async with aclosing(rehearsal.played(home, run_id, play, murderous=False)) as scenes:
            async for scene in scenes:
                tell(_scene(scene, play))
    tell(_title(4 if gate is not None else 3, "The proof"))
    proof = await rehearsal.proven(home, run_id, stage)
    if as_json:
        found = {"run": run_id, "kills": deaths, "merged": proof.merged, "whole": proof.whole, "ok": proof.holds}
        print(json.dumps({**found, "gate": gate[0].key if gate is not None else None}))
    elif quiet:
        print(f"{run_id}: {_verdict(proof, deaths)}")
    else:
        _print("\n".join(_proof(proof, deaths)))
        _print(_next_steps(run_id, stage))
    return OK if proof.holds and deaths == 2 else HoldfastError.exit_code  # noqa: PLR2004 - an agent and a runner


async def _gate(home: str, run_id: str) -> tuple[Need, RunState] | None:
    """What the run asks a person to approve."""
    state = (await view_run(home, run_id)).state
    asked = next((need for need in needs_of(state) if need.want is Want.APPROVAL), None)
    return (with_detail(asked, state), state) if asked is not None else None


async def _is_approved(run_id: str, tell: Callable[[str | None], None], *, asks: bool) -> bool:
    """By whoever sits at the terminal. Where nobody does, the demo approves it itself."""
    name = program()
    if not (asks and sys.stdin.isatty() and sys.stdout.isatty()):
        tell(f"\n  not a terminal, so the demo approves it: {name} approve {run_id}; {name} resume {run_id}\n")
        return True
    try:
        answer = await asyncio.to_thread(input, "\n  Enter approves it; n leaves it waiting: ")
    except EOFError:
        answer = "n"
    if answer.strip().lower() in ("", "y", "yes"):
        return True
    changes = f'{name} deny {run_id} --changes "…"'
    tell(f"\n  It waits for you: {name} approve {run_id}, or {changes}; then {name} resume {run_id}")
    return False


def _scene(scene: Scene, play: Play) -> str | None:
    if scene.killed is not None:
        where = {"agent": "in the middle of its turn", "runner": play.moment}[scene.killed]
        return paint(f"  ⚡ kill -9 {scene.pid}: the {scene.killed}, {where}", "red")
    assert scene.event is not None, "a scene is an event or a death"
    assert scene.state is not None, "an event has happened to something"
    return _line(scene.event, scene.state)


def _line(event: Event, state: RunState) -> str | None:
    words = _words(event)
    if words is None:
        return None
    return f"  {plain(subject(event, state)):14} {shortened(words, terminal_width() - 18)}"


def _words(event: Event) -> str | None:
    if isinstance(event, ConversationAttached) and event.notice is not None:
        return paint(event.notice, "green")
    if isinstance(event, ToolCalled) and event.tool.startswith("Write "):
        return None
    return told(event)


def _proof(proof: Proof, deaths: int) -> list[str]:
    graph = [f"  {line}" for line in proof.graph.splitlines()]
    return [*graph, "", f"  {paint(_verdict(proof, deaths), 'green' if proof.holds else 'red')}"]


def _verdict(proof: Proof, deaths: int) -> str:
    twice = [task for task, times in proof.merged.items() if times > 1]
    return (
        f"{deaths} kills; {len(proof.merged)} tasks merged, {', '.join(twice) or 'none'} twice; "
        f"{proof.alive} processes left over; log {'whole' if proof.whole else 'DAMAGED'}: "
        f"{proof.events} events, {proof.sessions} sittings"
    )


def _next_steps(run_id: str, stage: Stage) -> str:
    name = program()
    return (
        f"\nLook around:\n"
        f"  {name} show {run_id}\n"
        f"  {name} logs {run_id} --type 'task.*' --type 'run.*'\n"
        f"  {name} diff {run_id}\n"
        f"  {name} verify {run_id}\n"
        f"\nWith a real agent, in a repository of yours:\n"
        f"  {name} agents ls                              those there are, and how to install them\n"
        f'  {name} run "add a --verbose flag" --agent claude\n'
        f"  {_another(name, stage)}"
    )


def _another(name: str, stage: Stage) -> str:
    """The same again, by an agent that thinks."""
    goal = stage.tasks if stage.play.tasks is not None else f'"{stage.play.goal}"'
    return f"{name} run --workflow {stage.play.workflow} {goal} --repo {stage.repo} --agent codex"


def _title(number: int, text: str) -> str:
    return paint(f"\n{number}. {text}\n", "bold")


def _print(text: str | None) -> None:
    if text is not None:
        print(text, flush=True)


def _silent(_: str | None) -> None:
    pass
