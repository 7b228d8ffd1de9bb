"""The config of an existing run: from its log, and from the config files as they are now."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.core.state import RunState
from holdfast.core.work.workflow import Workflow
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.config.config import Config, load_config
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.home import Home
from holdfast.workflows.builtin import find_workflow


class ResumeSettings(NamedTuple):
    """What a user is told and asked before a run continues."""

    warnings: list[str]
    on_issue: str


def workflow_of(state: RunState) -> Workflow:
    """Return the run's workflow as it was when the run was created; for older runs, the one with the recorded name."""
    if state.workflow is not None:
        return msgspec.convert(state.workflow, Workflow)
    return find_workflow(state.run.workflow if state.run is not None else "solo")


def run_config_for(home: Home, state: RunState, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Return the current settings of a run: config files, the flags it was created with, and the flags given now."""
    settings = config_for(home, state, flags).settings
    return RunConfig(workflow_of(state), settings, agents_from_settings(settings))


def config_for(home: Home, state: RunState, flags: Mapping[str, Any] | None = None) -> Config:
    folder = state.settings.get("folder")
    all_flags = {**state.settings.get("flags", {}), **(flags or {})}
    here = folder if isinstance(folder, str) and os.path.isdir(folder) else None
    return load_config(here, home=home, flags=all_flags)


def on_issue_setting(home: Home, state: RunState) -> str:
    """Return the configured way to continue past an issue."""
    return resume_settings(home, state).on_issue


def resume_settings(home: Home, state: RunState) -> ResumeSettings:
    """Return the config warnings, and the configured way to continue past an issue."""
    config = config_for(home, state)
    return ResumeSettings(config.warnings, config.settings.resume.on_issue)
