"""Puts the built page of `holdfast serve` into a wheel and an sdist. An editable install gets none and needs no Node.

An sdist holds the built page, so that a wheel made from it needs no Node either.
"""

import importlib.util
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebPageHook(BuildHookInterface):  # type: ignore[type-arg,misc,unused-ignore]
    """Builds the page when it is not current."""

    def dependencies(self) -> list[str]:
        build = _load_build()
        return [] if build.is_current() or _is_asked_for_editable() else [build.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        build = _load_build()
        if version != "editable" and not build.is_current():
            build.build()


def _is_asked_for_editable() -> bool:
    """The question for requirements does not say for which kind of build, but its caller does."""
    return any(frame.name == "get_requires_for_build_editable" for frame in traceback.extract_stack())


def _load_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("holdfast_web_build", Path(__file__).parent / "web/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
