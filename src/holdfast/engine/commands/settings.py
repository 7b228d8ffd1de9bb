"""Writes the user's config file, and trusts the config file of a project."""

from holdfast.engine.config.config import trust_project
from holdfast.engine.config.files import create_config

__all__ = ["create_config", "trust_project"]
