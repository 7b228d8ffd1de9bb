"""The settings of a run that exists: from its log, and from the config as it is now."""

from holdfast.engine.config.of_run import config_warnings, on_issue_setting, workflow_of

__all__ = ["config_warnings", "on_issue_setting", "workflow_of"]
