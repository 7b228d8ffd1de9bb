"""From an accepted plan of an interview to a run that can be started.

The id of the run is in the log of the interview before anything is created. So a handover that was killed is repeated
with the same id: what it had created is found, and finished.
"""

from typing import Any

import msgspec

from holdfast.core.events import Event
from holdfast.core.events.phase import WorkflowChosen
from holdfast.core.events.plan import RunInterviewed
from holdfast.core.events.session import SettingsChosen
from holdfast.core.interview import Interview
from holdfast.core.state import Conversation, RunState
from holdfast.core.work.tasks import TaskList, TaskSpec
from holdfast.core.work.workflow import build_plan
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.config.config import load_config
from holdfast.engine.config.run_config import new_run_config
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import FirstCommit, NewRun, Workspace, create_run
from holdfast.git.seeds import seeds_from_commit
from holdfast.leaf.errors import BadInput
from holdfast.leaf.failpoints import failpoint_pair
from holdfast.leaf.ids import new_run_id
from holdfast.workflows.builtin import BUILT_IN

DEFAULT_WORKFLOW = "loop"
_FAILPOINT = failpoint_pair("run.prepare")


class Prepares(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an interview prepares, as its user asked for: the settings of the later run."""

    flags: dict[str, Any] = {}
    slug: str | None = None
    base: str | None = None


def prepares_of(state: RunState) -> Prepares:
    return msgspec.convert(state.settings.get("prepares") or {}, Prepares)


def new_prepared_id(state: RunState) -> str:
    """Return an id for the run. The caller records it before it creates the run."""
    goal = state.run.goal if state.run is not None else ""
    return new_run_id(prepares_of(state).slug or goal)


async def prepare_interviewed(home: Home, interview_run: Workspace) -> str:
    """Create the run of the accepted plan, or finish creating it. `BadInput` if it cannot be created as it is."""
    state, info = interview_run.effects.run.state, interview_run.info
    interview, prepares, repo = state.interview, prepares_of(state), info.repo
    if interview is None or interview.run_id is None or repo is None:
        raise BadInput("there is no accepted plan")
    folder = state.settings.get("folder")
    where = folder if isinstance(folder, str) else repo
    config = load_config(where, home=home, flags={"workflow": DEFAULT_WORKFLOW, **prepares.flags})
    run_config = new_run_config(config.settings, agents_from_settings(config.settings))
    workflow = run_config.workflow
    if workflow.chat:
        raise BadInput(f"the workflow {workflow.name} is a conversation, which has no plan; choose another workflow")
    flags = {"workflow": DEFAULT_WORKFLOW, **prepares.flags}
    events: list[Event] = [SettingsChosen(settings={"flags": flags, "folder": where}), _interviewed(state)]
    if workflow.phases or workflow.name not in BUILT_IN:
        events.append(WorkflowChosen(workflow=msgspec.to_builtins(workflow), wanted=[]))
    events.append(build_plan(_task_list(interview), workflow.shape, f"interview {info.run_id}"))
    base = state.checkpoints[0].commit if state.checkpoints else None
    first = None
    if interview.seeds and base is not None and interview.snapshot is not None:
        seeds = await seeds_from_commit(interview_run.repository, base, interview.snapshot, interview.seeds)
        first = FirstCommit(seeds.oid, 0, len(seeds.paths))
    new = NewRun(info.goal, where, workflow.name, prepares.slug, base if first is not None else prepares.base or base)
    _FAILPOINT.before()
    run_id = await create_run(home, new, *events, run_id=interview.run_id, first=first)
    _FAILPOINT.after()
    return run_id


def _task_list(interview: Interview) -> TaskList:
    tasks = tuple(
        TaskSpec(
            id=task.id,
            title=task.title,
            description=task.description,
            acceptance_criteria=tuple(task.acceptance_criteria),
            depends_on=tuple(task.depends_on),
            files=tuple(task.files),
        )
        for task in interview.tasks
    )
    return TaskList(tasks=tasks, overview=interview.overview)


def _interviewed(state: RunState) -> RunInterviewed:
    conversations = [*state.conversations.values()]
    newest = conversations[-1] if conversations else Conversation()
    return RunInterviewed(
        run_id=state.run.run_id if state.run is not None else "",
        agent=newest.agent,
        model=newest.options.get("model") or newest.model,
        turns=sum(conversation.turns for conversation in conversations),
        input_tokens=state.budget.input_tokens,
        output_tokens=state.budget.output_tokens,
        dollars=sum(conversation.cost for conversation in conversations),
    )
