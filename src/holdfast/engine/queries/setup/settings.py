"""The settings of a folder, and where each comes from."""

from holdfast.engine.config.config import (
    Config,
    ConfigFiles,
    IgnoredSetting,
    Origin,
    SettingValue,
    find_config_files,
    load_config,
    load_config_here,
    mistakes_in_roles,
    roles_of_flag,
)
from holdfast.engine.config.flags import with_absolute_paths

__all__ = [
    "Config",
    "ConfigFiles",
    "IgnoredSetting",
    "Origin",
    "SettingValue",
    "find_config_files",
    "load_config",
    "load_config_here",
    "mistakes_in_roles",
    "roles_of_flag",
    "with_absolute_paths",
]
