"""Probes of agents, settings, saved work, and the user's editor."""

import os
import shlex
import subprocess
from typing import Any

import msgspec

from holdfast.app.web.endpoint import Call, Nothing, post
from holdfast.app.web.problems import NotFound
from holdfast.app.web.reading.setup import SettingView, measurement_view, settings_of
from holdfast.core.work.names import worktree_names
from holdfast.engine.commands.probe import probe_agent
from holdfast.engine.commands.salvage import find_salvaged, repositories_of, restore_salvaged
from holdfast.engine.commands.settings import change_user_setting, trust_project
from holdfast.engine.queries.setup.agents import agents_from_settings, list_agents
from holdfast.engine.queries.setup.settings import load_config, load_config_here
from holdfast.leaf.errors import BadInput, Denied


class StartedJob(msgspec.Struct, frozen=True):
    """Follow it: `{"sub": "job:ID"}` on `/live`, or `GET /jobs/ID`."""

    job: str


class SettingChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For the user's config file. null deletes the setting from it."""

    key: str
    value: Any = None


class ChangedSetting(msgspec.Struct, frozen=True):
    file: str
    setting: SettingView | None


class TrustBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    repo: str


class Trusted(msgspec.Struct, frozen=True):
    """The settings of the project file that apply now."""

    file: str
    settings: list[str]


class RestoreBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    branch: str | None = None


class Restored(msgspec.Struct, frozen=True):
    branch: str
    repo: str


class OpenBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file in the worktree of a task, or of the run; without a path, the worktree itself."""

    path: str | None = None
    line: int | None = None
    task: str | None = None


class OpenedFile(msgspec.Struct, frozen=True):
    command: str


@post("/agents/{agent}/probe", "Measure what an agent can do: a real turn, which may cost something, and a real kill")
async def probe_one_agent(call: Call[Nothing, Nothing]) -> StartedJob:
    home, name = call.site.home, call.path["agent"]
    own = agents_from_settings(load_config(os.path.expanduser("~"), home=home).settings)
    if name not in {agent.name for agent in list_agents(home, own)}:
        raise NotFound(f"there is no agent {name!r}")

    async def measure(say: Any) -> Any:
        return measurement_view(await probe_agent(home, name, say, own))

    return StartedJob(call.site.jobs.start(f"probe {name}", measure).id)


@post("/settings", "Change a setting in the user's config file", 200)
async def change_setting(call: Call[Nothing, SettingChange]) -> ChangedSetting:
    body, home = call.body, call.site.home
    file = change_user_setting(home, body.key, body.value)
    settings = settings_of(call, os.path.expanduser("~")).settings
    return ChangedSetting(file, next((each for each in settings if each.key == body.key), None))


@post("/settings/trust", "Trust the config file of a project as it is now", 200)
async def trust_settings(call: Call[Nothing, TrustBody]) -> Trusted:
    if "\0" in call.body.repo or not os.path.isabs(call.body.repo):
        raise BadInput("repo: give an absolute path")
    file, enabled = trust_project(call.body.repo, call.site.home)
    return Trusted(file, list(enabled))


@post("/salvage/restore", "Create a branch from saved work, and change nothing else", 200)
async def restore_saved(call: Call[Nothing, RestoreBody]) -> Restored:
    repositories = await repositories_of([row.repo for row in (await call.site.board.listing()).runs], ())
    entry = await find_salvaged(repositories, call.body.name)
    return Restored(await restore_salvaged(entry, call.body.branch), entry.repo)


@post("/runs/{run}/open", "Open a file of a run in the user's editor", 200)
async def open_in_editor(call: Call[Nothing, OpenBody]) -> OpenedFile:
    run_id, body, site = call.run_id(), call.body, call.site
    if site.options.is_remote:
        raise Denied("files are opened on the machine of the server only; this server is used from others, too")
    editor = load_config_here(site.home).settings.serve.editor or os.environ.get("VISUAL")
    if not editor:
        raise BadInput('no editor is set; set serve.editor, for example to "code -g {file}:{line}"')
    top = os.path.realpath(os.path.join(site.home.folder(run_id), worktree_names(run_id, body.task).folder))
    real = os.path.realpath(os.path.join(top, body.path or "")) if "\0" not in (body.path or "") else ""
    if not (real == top or real.startswith(top + os.sep)) or not os.path.exists(real):
        raise NotFound(f"the worktree of {run_id} has no {body.path or 'folder'!r}")
    words = shlex.split(editor)
    if "{file}" not in editor:
        words.append("{file}")
    command = [word.replace("{file}", real).replace("{line}", str(body.line or 1)) for word in words]
    subprocess.Popen(  # noqa: ASYNC220 - the editor is the user's, and outlives the request
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return OpenedFile(shlex.join(command))
