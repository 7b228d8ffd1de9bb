"""The settings of a run that exists: from its log, and from the config as it is now."""

from holdfast.engine.config.of_run import ResumeSettings, on_issue_setting, resume_settings, workflow_of

__all__ = ["ResumeSettings", "on_issue_setting", "resume_settings", "workflow_of"]
