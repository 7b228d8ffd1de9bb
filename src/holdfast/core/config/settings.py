"""All settings and their defaults. docs/configuration.md and the JSON schema are generated from this file."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from holdfast.core.config.operations import Budgets, NotifyTarget, Price, TelemetrySettings
from holdfast.core.config.tables import COMMAND, SPAN, Command, Count, Money, SettingsTable, Span
from holdfast.core.conversation.permission import Policy, Rule
from holdfast.core.conversation.states import AfterInterruption
from holdfast.core.conversation.terminal_ui import TerminalUi
from holdfast.core.work.workflow import Publish

__all__ = ["COMMAND", "SPAN", "Command", "Count", "Money", "Settings", "SettingsTable", "Span"]


class RuntimeChoice(SettingsTable, frozen=True):
    """Where agents run. All keys except `kind` are for a sandbox or a container."""

    kind: Annotated[
        Literal["local", "sandbox", "container", "tmux"],
        Meta(description="a plain process, a bubblewrap sandbox, a container, or the agent's terminal UI in tmux"),
    ] = "local"
    network: Annotated[bool, Meta(description="whether it can reach the network")] = True
    writable: Annotated[
        tuple[str, ...],
        Meta(description="paths that it may write, in addition to its worktree", examples=[["~/.codex"]]),
    ] = ()
    readable: Annotated[
        tuple[str, ...],
        Meta(description="paths that it may read and that are hidden by default", examples=[["~/.config/gh"]]),
    ] = ()
    commits: Annotated[bool, Meta(description="whether it may commit to its own branch")] = False
    image: Annotated[str | None, Meta(description="image of the container", examples=["python:3.12"])] = None
    socket: Annotated[
        str | None,
        Meta(
            description="socket of the container engine; default: `DOCKER_HOST`", examples=["unix:///run/docker.sock"]
        ),
    ] = None


class Role(SettingsTable, frozen=True):
    """The agent of a role: worker, evaluator, researcher, architect, planner, …, or a named one as `reviewer:logic`."""

    agent: Annotated[str | None, Meta(description="the agent; default: that of the run", examples=["codex"])] = None
    model: Annotated[str | None, Meta(description="the model; default: the agent's own choice", examples=["opus"])] = (
        None
    )
    runtime: Annotated[
        RuntimeChoice | None,
        Meta(description="where it runs; default: as the agent or the run", examples=[{"kind": "sandbox"}]),
    ] = None
    fallback: Annotated[
        tuple[str, ...],
        Meta(
            description="agents that take over while its provider's limit is reached, best first",
            examples=[["codex", "gemini"]],
        ),
    ] = ()


class QuotaSettings(SettingsTable, frozen=True):
    """What to do when a provider's usage limit is reached."""

    wait: Annotated[
        Span,
        Meta(
            description="how long a session waits for the reset; a longer wait ends it, and `holdfast watch` resumes it"
        ),
    ] = 300.0
    back_off: Annotated[
        Span, Meta(description="the wait when no reset time is known; doubled after each further refusal")
    ] = 300.0
    longest_back_off: Annotated[Span, Meta(description="the longest such wait")] = 3600.0
    go_back: Annotated[
        bool, Meta(description="return to the first agent in the middle of a task, once its limit has reset")
    ] = False


class OutageSettings(SettingsTable, frozen=True):
    """What to do when a provider or the network is away."""

    wait: Annotated[
        Span, Meta(description="how long a session waits in all; then it ends, and `holdfast watch` resumes it")
    ] = 1800.0
    back_off: Annotated[Span, Meta(description="the first wait; doubled after each further failure")] = 5.0
    longest_back_off: Annotated[Span, Meta(description="the longest wait")] = 300.0


class RetentionSettings(SettingsTable, frozen=True):
    """How `holdfast watch`, `serve` and `prune` shrink finished runs. Each time counts from the run's last event."""

    worktrees_after: Annotated[
        Span, Meta(description="delete the worktrees of a finished run, and keep its branches; 0: never")
    ] = 0.0
    archive_after: Annotated[
        Span, Meta(description="delete the worktrees, branches and snapshots of a finished run; 0: never")
    ] = 0.0
    compress_after: Annotated[Span, Meta(description="compress the log of an archived run; 0: never")] = 0.0
    transcripts_after: Annotated[
        Span, Meta(description="withhold the messages in the log of an archived run; 0: never")
    ] = 0.0
    delete_after: Annotated[
        Span, Meta(description="delete an archived run, except its summary and the end of its chain; 0: never")
    ] = 0.0


class DiskSettings(SettingsTable, frozen=True):
    """When to stop because of little disk space."""

    reserve: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000,
            description="a session ends while so many megabytes are free, or 2 % of a small file system; 0: never",
        ),
    ] = 200


class Caps(SettingsTable, frozen=True):
    """Limits of a run. Usage counts across all resumes, except for the wall clock."""

    iterations: Annotated[Count, Meta(description="iterations of a task")] = 8
    evaluator_calls: Annotated[Count, Meta(description="evaluations of a task")] = 4
    wall_clock: Annotated[Span | None, Meta(description="duration of one session of the run", examples=["2h"])] = None
    tokens: Annotated[Count | None, Meta(description="tokens of the run", examples=[2_000_000])] = None
    dollars: Annotated[Money | None, Meta(description="cost of the run, in dollars", examples=[20.0])] = None
    conflict_attempts: Annotated[Count, Meta(description="attempts to resolve a merge conflict")] = 2


class Validator(SettingsTable, frozen=True):
    """A command that must succeed before a task counts as done."""

    command: Annotated[Command, Meta(description="the command, run in the worktree", examples=["npm test"])]
    timeout: Annotated[Span | None, Meta(description="time limit; default: `validators.timeout`", examples=["5m"])] = (
        None
    )
    required: Annotated[
        bool, Meta(description="whether it must pass even if it fails before the work, on the untouched base")
    ] = False


class Validators(SettingsTable, frozen=True):
    """Checks that a task must pass before it is evaluated."""

    detect: Annotated[bool, Meta(description="detect checks from the files of the repository")] = True
    baseline: Annotated[
        bool,
        Meta(description="run each check once on the untouched base; one that fails there does not gate tasks"),
    ] = True
    timeout: Annotated[Span, Meta(description="time limit of each check")] = 600.0
    commands: Annotated[
        dict[str, Validator], Meta(description="your own checks by name; they replace detected ones of the same name")
    ] = {}


class Permissions(SettingsTable, frozen=True):
    """What agents may do without asking."""

    policy: Annotated[Policy, Meta(description="the decision when no rule applies")] = Policy.ASK
    rules: Annotated[
        tuple[Rule, ...],
        Meta(
            description=(
                "the first rule that applies decides: `then` is allow, deny or ask; "
                "`tool`, `path` and `command` are patterns"
            ),
            examples=[[{"then": "allow", "tool": "edit", "path": "src/*"}, {"then": "allow", "command": "npm test *"}]],
        ),
    ] = ()


_Commands = tuple[Command, ...]
_Paths = tuple[Annotated[str, Meta(min_length=1)], ...]


class WorktreeSettings(SettingsTable, frozen=True):
    """What a new worktree needs before anything runs in it: git does not check out ignored files."""

    setup: Annotated[
        _Commands,
        Meta(description="commands to run in each new worktree, in order", examples=[["npm ci"], ["uv sync"]]),
    ] = ()
    copy: Annotated[
        _Paths, Meta(description="ignored files or folders of your checkout to copy into it", examples=[[".env"]])
    ] = ()
    link: Annotated[
        _Paths,
        Meta(
            description="ignored files or folders of your checkout to link into it: agents can write to them",
            examples=[["node_modules"]],
        ),
    ] = ()
    timeout: Annotated[Span, Meta(description="time limit of each setup command")] = 1800.0


class Hooks(SettingsTable, frozen=True):
    """Your own commands, each as one text or a list of words. They get the event as JSON on stdin."""

    pre_tool: Annotated[_Commands, Meta(description="before a tool call; a command that fails blocks it")] = ()
    post_edit: Annotated[_Commands, Meta(description="after an agent changed a file")] = ()
    session_start: Annotated[_Commands, Meta(description="when a run starts or resumes")] = ()
    session_end: Annotated[_Commands, Meta(description="when a session ends")] = ()
    task_done: Annotated[_Commands, Meta(description="when a task is done")] = ()
    task_failed: Annotated[_Commands, Meta(description="when a task failed")] = ()
    notify: Annotated[
        _Commands, Meta(description="when the run needs a person or has ended", examples=[["notify-send Holdfast"]])
    ] = ()


class AgentEntry(SettingsTable, frozen=True):
    """Your own agent, or changed settings of a known one."""

    command: Annotated[
        Command | None,
        Meta(
            description="the command that starts it as an ACP agent; required for an unknown agent",
            examples=["my-agent --acp"],
        ),
    ] = None
    title: Annotated[str | None, Meta(description="its display name", examples=["My agent"])] = None
    install: Annotated[
        str | None, Meta(description="how to install it, shown when it is missing", examples=["pip install my-agent"])
    ] = None
    environment: Annotated[
        dict[str, str], Meta(description="environment variables to set for it", examples=[{"MY_AGENT_MODE": "quiet"}])
    ] = {}
    secrets: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="names of secret variables of your environment to pass to it, instead of its usual ones",
            examples=[["MY_API_KEY"]],
        ),
    ] = None
    login: Annotated[str | None, Meta(description="the ACP method for its login", examples=["api-key"])] = None
    runtime: Annotated[
        RuntimeChoice | None, Meta(description="where it runs; default: as the run", examples=[{"kind": "sandbox"}])
    ] = None
    tools_wait: Annotated[
        Span | None,
        Meta(
            description="how long its first prompt waits for it to load Holdfast's tools; 0: do not wait",
            examples=["1m"],
        ),
    ] = None
    terminal: Annotated[
        TerminalUi | None,
        Meta(
            description="its own terminal UI, for tmux: docs/runtimes.md has the keys",
            examples=[{"command": ["my-agent"], "resume": ["--resume", "{session}"]}],
        ),
    ] = None


class ResumePolicy(SettingsTable, frozen=True):
    """How an interrupted run continues."""

    on_issue: Annotated[
        str,
        Meta(
            description="what to do about a failed or blocked task: `ask`, `retry`, `restart`, `skip`, "
            "or instructions for its agent",
            min_length=1,
        ),
    ] = "ask"
    auto: Annotated[bool, Meta(description="whether `holdfast watch` may resume the run")] = True
    back_off: Annotated[Span, Meta(description="wait before the second attempt; doubled before each later one")] = 5.0
    longest_back_off: Annotated[Span, Meta(description="the longest wait")] = 300.0
    deaths: Annotated[Count, Meta(description="deaths of the same kind in a row before the run is parked")] = 3


class Chat(SettingsTable, frozen=True):
    """A chat waits for its user between turns."""

    idle: Annotated[
        Span, Meta(description="how long its runner waits before it ends; the next message starts one again")
    ] = 600.0


class Serve(SettingsTable, frozen=True):
    """The page in the browser."""

    resume_on_open: Annotated[
        bool,
        Meta(description="whether opening a chat in the page starts its agent, idle, if no decision is needed"),
    ] = True
    editor: Annotated[
        str | None,
        Meta(description="the command that opens a file, with {file} and {line}", examples=["code -g {file}:{line}"]),
    ] = None


class MemoryCaps(SettingsTable, frozen=True):
    """How much memory a prompt may contain, in characters."""

    total: Annotated[Count, Meta(description="of all channels")] = 40_000
    channel: Annotated[Count, Meta(description="of one channel")] = 16_000


class Approvals(StrEnum):
    """Whether a phase that asks for approval waits for a person."""

    ASK = "ask"
    GIVEN = "given"


class ClusterSettings(SettingsTable, frozen=True):
    """Runs on the machines of a cluster."""

    engine: Annotated[
        str | None,
        Meta(
            description="the Temporal server that places runs; only in your own config file. `HOLDFAST_ENGINE` "
            "replaces it",
            examples=["temporal://temporal.example.org:7233"],
        ),
    ] = None
    heartbeat: Annotated[
        Span, Meta(description="after so long without a sign of life from a worker, its runs are placed elsewhere")
    ] = 30.0
    snapshots: Annotated[
        Span, Meta(description="how often the files of a turn in progress are saved to the remote; 0: never")
    ] = 60.0


class Settings(SettingsTable, frozen=True):
    """The whole of a config file."""

    agent: Annotated[
        str,
        Meta(description="the agent; `holdfast agents ls` lists them. Words after its name are added to its command"),
    ] = "claude"
    model: Annotated[
        str | None,
        Meta(description="the model, as the agent names it; default: the agent's own choice", examples=["opus"]),
    ] = None
    workflow: Annotated[str, Meta(description="`solo`, `chat`, `loop`, `waves`, `pipeline`, or your own file")] = "solo"
    parallel: Annotated[Count, Meta(description="tasks at the same time")] = 2
    reviewers: Annotated[
        Count | None, Meta(description="reviewers at the same time; default: all of a review", examples=[1])
    ] = None
    after_interruption: Annotated[
        AfterInterruption, Meta(description="what to do with an interrupted turn: continue it, retry it, or ask you")
    ] = AfterInterruption.CONTINUE
    approvals: Annotated[
        Approvals, Meta(description="phases that need approval wait for you (`ask`) or continue (`given`)")
    ] = Approvals.ASK
    publish: Annotated[
        Publish | None,
        Meta(description="where to publish the result; default: as the workflow says", examples=["push"]),
    ] = None
    roles: Annotated[dict[str, Role], Meta(description="the agents of roles")] = {}
    caps: Caps = Caps()
    worktree: WorktreeSettings = WorktreeSettings()
    validators: Validators = Validators()
    permissions: Permissions = Permissions()
    hooks: Hooks = Hooks()
    agents: Annotated[dict[str, AgentEntry], Meta(description="your own agents, by name")] = {}
    runtime: RuntimeChoice = RuntimeChoice()
    resume: ResumePolicy = ResumePolicy()
    quota: QuotaSettings = QuotaSettings()
    outage: OutageSettings = OutageSettings()
    disk: DiskSettings = DiskSettings()
    budgets: Budgets = Budgets()
    prices: Annotated[dict[str, Price], Meta(description="your own prices, by model or pattern")] = {}
    notify: Annotated[dict[str, NotifyTarget], Meta(description="where notifications go, by a name of yours")] = {}
    telemetry: TelemetrySettings = TelemetrySettings()
    retention: RetentionSettings = RetentionSettings()
    chat: Chat = Chat()
    serve: Serve = Serve()
    memory: MemoryCaps = MemoryCaps()
    store: Annotated[
        str | None,
        Meta(
            description="database that keeps the runs instead of files, without its password; only in your own config "
            "file. `HOLDFAST_STORE` replaces it",
            examples=["postgresql://holdfast@db.example.org/holdfast"],
        ),
    ] = None
    cluster: ClusterSettings = ClusterSettings()
