"""All that can be set, with what holds when nothing is. docs/configuration.md and the JSON schema are made from here.

TOML may write a span of time as `90m` and a command as one text; here the one is seconds and the other is words.
"""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.core.config.durations import LONGEST, PATTERN
from holdfast.core.conversation.permission import Policy, Rule
from holdfast.core.conversation.states import AfterInterruption
from holdfast.core.conversation.terminal_ui import Tui
from holdfast.core.work.workflow import Publish

SPAN = {"written": "span"}
COMMAND = {"written": "command"}

Span = Annotated[float, Meta(ge=0, le=LONGEST, extra=SPAN, extra_json_schema={"pattern": PATTERN})]
Command = Annotated[tuple[str, ...], Meta(min_length=1, extra=COMMAND, extra_json_schema={"minLength": 1})]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Money = Annotated[float, Meta(ge=0, le=1e9)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the config: no other keys than those that are named."""


class RuntimeChoice(Part, frozen=True):
    """What agents run in. All but `kind` is for a sandbox or a container."""

    kind: Annotated[
        Literal["local", "sandbox", "container", "tmux"],
        Meta(description="a process of yours, one in bubblewrap, one in a container, or its own terminal UI in tmux"),
    ] = "local"
    network: Annotated[bool, Meta(description="may it reach the network")] = True
    writable: Annotated[
        tuple[str, ...],
        Meta(description="paths that it may write, beside its worktree", examples=[["~/.codex"]]),
    ] = ()
    readable: Annotated[
        tuple[str, ...],
        Meta(description="paths that it may read and that would be hidden otherwise", examples=[["~/.config/gh"]]),
    ] = ()
    commits: Annotated[bool, Meta(description="may it commit, to its own branch")] = False
    image: Annotated[str | None, Meta(description="image of the container", examples=["python:3.12"])] = None
    socket: Annotated[
        str | None,
        Meta(description="socket of the container engine, else `DOCKER_HOST`", examples=["unix:///run/docker.sock"]),
    ] = None


class Role(Part, frozen=True):
    """Who plays a role: worker, evaluator, researcher, architect, planner, …, or `reviewer:logic` for one by name."""

    agent: Annotated[str | None, Meta(description="the agent, else the run's", examples=["codex"])] = None
    model: Annotated[str | None, Meta(description="the model, else the agent's own choice", examples=["opus"])] = None
    runtime: Annotated[
        RuntimeChoice | None,
        Meta(description="what it runs in, else the agent's or the run's", examples=[{"kind": "sandbox"}]),
    ] = None


class Caps(Part, frozen=True):
    """Where a run stops. What was used counts over all resumes, except the wall clock."""

    iterations: Annotated[Count, Meta(description="attempts at a task")] = 8
    evaluator_calls: Annotated[Count, Meta(description="judgements of a task")] = 4
    wall_clock: Annotated[Span | None, Meta(description="time of one session of the run", examples=["2h"])] = None
    tokens: Annotated[Count | None, Meta(description="tokens of the run", examples=[2_000_000])] = None
    dollars: Annotated[Money | None, Meta(description="cost of the run, in dollars", examples=[20.0])] = None
    conflict_attempts: Annotated[Count, Meta(description="attempts to solve a merge conflict")] = 2


class Validator(Part, frozen=True):
    """A command that must succeed before a task counts as done."""

    command: Annotated[Command, Meta(description="what to run in the worktree", examples=["npm test"])]
    timeout: Annotated[
        Span | None, Meta(description="how long it may take, else `validators.timeout`", examples=["5m"])
    ] = None


class Validators(Part, frozen=True):
    """Checks that a task has to pass before anybody judges it."""

    detect: Annotated[bool, Meta(description="find checks by the files of the repository")] = True
    timeout: Annotated[Span, Meta(description="how long each may take")] = 600.0
    commands: Annotated[
        dict[str, Validator], Meta(description="your own, by name; one named as a found one replaces it")
    ] = {}


class Permissions(Part, frozen=True):
    """What agents may do without asking."""

    policy: Annotated[Policy, Meta(description="when no rule applies")] = Policy.ASK
    rules: Annotated[
        tuple[Rule, ...],
        Meta(
            description=(
                "the first that applies decides: `then` allow, deny or ask; `tool`, `path` and `command` are patterns"
            ),
            examples=[[{"then": "allow", "tool": "edit", "path": "src/*"}, {"then": "allow", "command": "npm test *"}]],
        ),
    ] = ()


_Commands = tuple[Command, ...]


class Hooks(Part, frozen=True):
    """Commands of yours, each a list of words or one text. They get the event as JSON on stdin."""

    pre_tool: Annotated[_Commands, Meta(description="before a tool call; one that fails forbids it")] = ()
    post_edit: Annotated[_Commands, Meta(description="after an agent changed a file")] = ()
    session_start: Annotated[_Commands, Meta(description="when a run starts or goes on")] = ()
    session_end: Annotated[_Commands, Meta(description="when it stops")] = ()
    task_done: Annotated[_Commands, Meta(description="when a task is done")] = ()
    task_failed: Annotated[_Commands, Meta(description="when a task failed")] = ()
    notify: Annotated[
        _Commands, Meta(description="when somebody is needed or the run is over", examples=[["notify-send Holdfast"]])
    ] = ()


class AgentEntry(Part, frozen=True):
    """An agent of your own, or other settings for one that we know."""

    command: Annotated[
        Command | None,
        Meta(
            description="how to start it, speaking ACP; needed for one that we do not know", examples=["my-agent --acp"]
        ),
    ] = None
    title: Annotated[str | None, Meta(description="its name for people", examples=["My agent"])] = None
    install: Annotated[
        str | None, Meta(description="how to install it, told when it is missing", examples=["pip install my-agent"])
    ] = None
    environment: Annotated[
        dict[str, str], Meta(description="variables that it gets", examples=[{"MY_AGENT_MODE": "quiet"}])
    ] = {}
    secrets: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="names of secret variables of your environment that it gets, instead of its usual ones",
            examples=[["MY_API_KEY"]],
        ),
    ] = None
    login: Annotated[str | None, Meta(description="the ACP method by which it logs in", examples=["api-key"])] = None
    runtime: Annotated[
        RuntimeChoice | None, Meta(description="what it runs in, else the run's", examples=[{"kind": "sandbox"}])
    ] = None
    tools_wait: Annotated[
        Span | None,
        Meta(
            description="how long its first prompt waits until it has Holdfast's tools; 0: it asks for them later",
            examples=["1m"],
        ),
    ] = None
    terminal: Annotated[
        Tui | None,
        Meta(
            description="its own terminal UI, for tmux: docs/runtimes.md has the keys",
            examples=[{"command": ["my-agent"], "resume": ["--resume", "{session}"]}],
        ),
    ] = None


class ResumePolicy(Part, frozen=True):
    """How an interrupted run goes on."""

    on_issue: Annotated[
        str,
        Meta(description="a task in trouble: `ask`, `retry`, `restart`, `skip`, or words for its agent", min_length=1),
    ] = "ask"
    auto: Annotated[bool, Meta(description="may `holdfast watch` bring the run back")] = True
    back_off: Annotated[Span, Meta(description="wait before the second try; each later wait is twice as long")] = 5.0
    longest_back_off: Annotated[Span, Meta(description="but never longer than this")] = 300.0
    deaths: Annotated[Count, Meta(description="deaths of the same kind, one after another, before it is parked")] = 3


class MemoryCaps(Part, frozen=True):
    """How much agents may keep in the run's memory, in characters."""

    total: Annotated[Count, Meta(description="of a run")] = 40_000
    channel: Annotated[Count, Meta(description="of one channel")] = 16_000


class Approvals(StrEnum):
    """Who answers a phase that asks for approval."""

    ASK = "ask"
    GIVEN = "given"


class Settings(Part, frozen=True):
    """The whole of a config file."""

    agent: Annotated[
        str, Meta(description="who works; `holdfast agents ls` lists them, and words after a name go to its command")
    ] = "claude"
    workflow: Annotated[str, Meta(description="`solo`, `loop`, `waves`, `pipeline`, or a file of your own")] = "solo"
    parallel: Annotated[Count, Meta(description="tasks at the same time")] = 2
    reviewers: Annotated[
        Count | None, Meta(description="reviewers at the same time, else all of a review", examples=[1])
    ] = None
    after_interruption: Annotated[
        AfterInterruption, Meta(description="a turn that was cut off is continued, tried again, or asked about")
    ] = AfterInterruption.CONTINUE
    approvals: Annotated[
        Approvals, Meta(description="phases that ask for approval wait for you, or have it already")
    ] = Approvals.ASK
    publish: Annotated[
        Publish | None,
        Meta(description="where the work goes in the end, else as the workflow says", examples=["push"]),
    ] = None
    roles: Annotated[dict[str, Role], Meta(description="who plays which role")] = {}
    caps: Caps = Caps()
    validators: Validators = Validators()
    permissions: Permissions = Permissions()
    hooks: Hooks = Hooks()
    agents: Annotated[dict[str, AgentEntry], Meta(description="agents of your own, by name")] = {}
    runtime: RuntimeChoice = RuntimeChoice()
    resume: ResumePolicy = ResumePolicy()
    memory: MemoryCaps = MemoryCaps()
