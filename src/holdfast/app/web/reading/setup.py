"""What a new run can use: agents, workflows, settings, repositories, folders, branches."""

import os
from typing import Any

import msgspec

from holdfast.app.web.endpoint import Call, Nothing, get
from holdfast.core.config.settings_docs import table_docs
from holdfast.engine.commands.salvage import list_salvaged, repositories_of
from holdfast.engine.queries.setup.agents import AgentMeasurement, ListedAgent, agents_from_settings, list_agents
from holdfast.engine.queries.setup.project import list_branches
from holdfast.engine.queries.setup.settings import Config, Origin, SettingValue, find_config_files, load_config
from holdfast.engine.queries.setup.workflows import built_in_workflows
from holdfast.leaf.errors import BadInput

_TASK_LISTS = (".md", ".markdown", ".yaml", ".yml", ".json", ".toml")
_MAX_ENTRIES = 2_000


class MeasurementView(msgspec.Struct, frozen=True):
    """Measured abilities; null for what the agent does not offer, or what was not reached."""

    when: str
    program: str | None
    version: str | None
    start_ms: int | None
    memory_mb: int | None
    turn: bool
    load: bool | None
    resume: bool | None
    fork: bool | None
    sessions: bool | None
    cost: bool | None
    after_cut: str | None
    replayed: int | None
    strategy: str
    notes: list[str]


class AgentView(msgspec.Struct, frozen=True):
    """`problem` says why it cannot start here, and what mends it."""

    name: str
    title: str
    command: list[str]
    installed: bool
    ready: bool
    install: str
    problem: str | None
    login: str | None
    login_command: str
    measured: MeasurementView | None


class AgentList(msgspec.Struct, frozen=True):
    agents: list[AgentView]


class WorkflowPhase(msgspec.Struct, frozen=True):
    name: str
    kind: str
    about: str
    optional: bool
    detour: bool
    approval: bool
    roles: list[str]


class WorkflowView(msgspec.Struct, frozen=True):
    name: str
    description: str
    shape: str
    chat: bool
    phases: list[WorkflowPhase]


class WorkflowList(msgspec.Struct, frozen=True):
    workflows: list[WorkflowView]


class RepositoryQuery(msgspec.Struct, frozen=True):
    """`repo`: a folder in a repository."""

    repo: str | None = None


class ConfigFile(msgspec.Struct, frozen=True):
    layer: str
    file: str
    exists: bool
    trusted: bool


class SettingView(msgspec.Struct, frozen=True):
    """A setting and where it comes from. Not trusted: a project file has it, and it is ignored."""

    key: str
    value: Any
    toml: str
    layer: str
    file: str | None
    line: int | None
    origin: str
    trusted: bool
    help: str
    type: str
    default: str | None


class SettingList(msgspec.Struct, frozen=True):
    files: list[ConfigFile]
    settings: list[SettingView]
    warnings: list[str]


class RepositoryView(msgspec.Struct, frozen=True):
    path: str
    runs: int
    last: str | None


class RepositoryList(msgspec.Struct, frozen=True):
    repositories: list[RepositoryView]


class FolderQuery(msgspec.Struct, frozen=True):
    path: str | None = None


class FolderEntry(msgspec.Struct, frozen=True):
    name: str
    path: str
    is_repository: bool


class FileEntry(msgspec.Struct, frozen=True):
    name: str
    path: str


class FolderView(msgspec.Struct, frozen=True):
    """`lists`: files that can be task lists."""

    path: str
    parent: str | None
    is_repository: bool
    folders: list[FolderEntry]
    lists: list[FileEntry]


class BranchQuery(msgspec.Struct, frozen=True):
    repo: str


class BranchList(msgspec.Struct, frozen=True):
    current: str | None
    branches: list[str]


class SalvageQuery(msgspec.Struct, frozen=True):
    """`run`: only of this run."""

    run: str | None = None


class SalvageView(msgspec.Struct, frozen=True):
    name: str
    run: str
    repo: str
    commit: str
    when: str
    what: str


class SalvageList(msgspec.Struct, frozen=True):
    entries: list[SalvageView]


@get("/agents", "Known agents: installed or not, and what each was measured to do")
async def get_agents(call: Call[Nothing, Nothing]) -> AgentList:
    config = load_config(os.path.expanduser("~"), home=call.site.home)
    agents = list_agents(call.site.home, agents_from_settings(config.settings))
    return AgentList([_agent_view(agent) for agent in agents])


def _agent_view(agent: ListedAgent) -> AgentView:
    return AgentView(
        agent.name,
        agent.title,
        list(agent.command),
        agent.installed,
        agent.is_ready,
        agent.install,
        agent.problem,
        agent.login,
        agent.login_command,
        measurement_view(agent.row) if agent.row is not None else None,
    )


def measurement_view(row: AgentMeasurement) -> MeasurementView:
    fields = {name: getattr(row, name) for name in MeasurementView.__struct_fields__ if name != "strategy"}
    return MeasurementView(**fields, strategy=str(row.strategy))


@get("/workflows", "The built-in workflows and their phases")
async def get_workflows(_: Call[Nothing, Nothing]) -> WorkflowList:
    return WorkflowList(
        [
            WorkflowView(
                workflow.name,
                workflow.about,
                str(workflow.shape),
                workflow.chat,
                [
                    WorkflowPhase(
                        phase.name,
                        str(phase.kind),
                        phase.about,
                        phase.optional,
                        phase.detour,
                        phase.approval,
                        list(phase.all_roles),
                    )
                    for phase in workflow.phases
                ],
            )
            for workflow in built_in_workflows()
        ]
    )


@get("/settings", "All settings with their origins; with a repository, as a run there would have them")
async def get_settings(call: Call[RepositoryQuery, Nothing]) -> SettingList:
    folder = _folder(call.query.repo) if call.query.repo is not None else os.path.expanduser("~")
    return settings_of(call, folder)


def settings_of(call: Call[Any, Any], folder: str) -> SettingList:
    home = call.site.home
    config, files = load_config(folder, home=home), find_config_files(folder, home)
    listed = [("user", files.user, True)]
    if files.project is not None:
        listed.append(("project", files.project, files.trusted))
    return SettingList(
        [ConfigFile(layer, file, os.path.exists(file), trusted) for layer, file, trusted in listed],
        _setting_views(config),
        list(config.warnings),
    )


def _setting_views(config: Config) -> list[SettingView]:
    documented = {
        f"{table.name}.{key.name}" if table.name else key.name: key for table in table_docs() for key in table.keys
    }

    def view(key: str, value: SettingValue, origin: Origin, *, trusted: bool) -> SettingView:
        about = documented.get(key)
        return SettingView(
            key,
            value.data,
            value.toml,
            origin.layer,
            origin.file,
            origin.line,
            str(origin),
            trusted,
            about.about if about is not None else "",
            about.kind if about is not None else "",
            about.default if about is not None else None,
        )

    return [
        *(view(key, value, config.origins[key], trusted=True) for key, value in config.values.items()),
        *(view(each.key, each.value, each.origin, trusted=False) for each in config.ignored),
    ]


@get("/repositories", "The repositories of earlier runs, the most recently used first")
async def get_repositories(call: Call[Nothing, Nothing]) -> RepositoryList:
    found: dict[str, list[str]] = {}
    for row in (await call.site.board.listing()).runs:
        if row.repo is not None:
            found.setdefault(row.repo.removesuffix("/.git"), []).append(row.updated or "")
    views = [
        RepositoryView(path, len(times), max(times) or None) for path, times in found.items() if os.path.isdir(path)
    ]
    return RepositoryList(sorted(views, key=lambda view: view.last or "", reverse=True))


@get("/folders", "The folders in a folder, to choose a repository or a task list")
async def get_folder(call: Call[FolderQuery, Nothing]) -> FolderView:
    path = os.path.realpath(_folder(call.query.path or os.path.expanduser("~")))
    try:
        with os.scandir(path) as found:
            entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    shown = [entry for entry in entries if _is_utf8(entry.name)][:_MAX_ENTRIES]
    parent = os.path.dirname(path)
    return FolderView(
        path,
        parent if parent != path else None,
        _is_repository(path),
        [FolderEntry(each.name, each.path, _is_repository(each.path)) for each in shown if _is_folder(each)],
        [FileEntry(each.name, each.path) for each in shown if each.name.endswith(_TASK_LISTS) and not _is_folder(each)],
    )


def _folder(path: str) -> str:
    if "\0" in path or not os.path.isabs(path) or not os.path.isdir(path):
        raise BadInput(f"{path!r} is not a folder; give an absolute path")
    return path


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_repository(path: str) -> bool:
    return os.path.exists(os.path.join(path, ".git")) or os.path.isfile(os.path.join(path, "HEAD"))


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@get("/branches", "The branches of a repository that a run can start from")
async def get_branches(call: Call[BranchQuery, Nothing]) -> BranchList:
    current, branches = await list_branches(_folder(call.query.repo))
    return BranchList(current, branches)


@get("/salvage", "Work that was saved before something was deleted, the newest first")
async def get_salvage(call: Call[SalvageQuery, Nothing]) -> SalvageList:
    repositories = await repositories_of([row.repo for row in (await call.site.board.listing()).runs], ())
    entries = await list_salvaged(repositories, call.query.run)
    return SalvageList(
        [SalvageView(each.name, each.run, each.repo, each.commit, each.when, each.what) for each in entries]
    )
