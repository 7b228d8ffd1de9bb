"""The terms of a run that exists: from its log, and from the config as it is now."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.state import RunState
from holdfast.core.work.workflow import Workflow
from holdfast.engine.config.agents import agents_from_settings
from holdfast.engine.config.config import Config, load_config
from holdfast.engine.config.run_config import RunConfig
from holdfast.engine.home import Home
from holdfast.workflows.builtin import find_workflow


def workflow_of(state: RunState) -> Workflow:
    """The run's own, as it was when it was made; of an older run, the one that has its name."""
    if state.workflow is not None:
        return msgspec.convert(state.workflow, Workflow)
    return find_workflow(state.run.workflow if state.run is not None else "solo")


def run_config_for(home: Home, state: RunState, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """What holds for a run now: the config as it is, what was asked for when it was made, and what is asked now."""
    settings = config_for(home, state, flags).settings
    return RunConfig(workflow_of(state), settings, agents_from_settings(settings))


def config_for(home: Home, state: RunState, flags: Mapping[str, Any] | None = None) -> Config:
    folder = state.settings.get("folder")
    asked = {**state.settings.get("flags", {}), **(flags or {})}
    here = folder if isinstance(folder, str) and os.path.isdir(folder) else None
    return load_config(here, home=home, flags=asked)


def on_issue_setting(home: Home, state: RunState) -> str:
    """What the config says of how to go on past an issue."""
    return run_config_for(home, state).settings.resume.on_issue


def config_warnings(home: Home, state: RunState) -> list[str]:
    """What its user should know of the config before it goes on."""
    return config_for(home, state).warnings
