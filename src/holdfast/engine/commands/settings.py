"""Writes the user's config file, and trusts the config file of a project."""

from holdfast.engine.config.config import trust_project
from holdfast.engine.config.edit import change_user_setting
from holdfast.engine.config.files import create_config

__all__ = ["change_user_setting", "create_config", "trust_project"]
