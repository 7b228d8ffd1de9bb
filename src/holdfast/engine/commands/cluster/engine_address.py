"""The address of the Temporal server, and the names by which submitters and workers find each other there."""

import os
from typing import NamedTuple

import msgspec

from holdfast.engine.config.config import load_config
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput

ENGINE_VARIABLE = "HOLDFAST_ENGINE"
WORKFLOW = "holdfast-run"
WORKFLOW_QUEUE = "holdfast"
WAKE_SIGNAL = "wake"
HOLD_ACTIVITY = "hold_run"
SEEN_OPTION = "--seen"  # the end of the log at the submission: a stop after it counts, a choice for one resume after it

_SCHEME = "temporal://"
_DEFAULT_PORT = 7233


class EngineAddress(NamedTuple):
    """Where the Temporal server is. With `tls`, certificates are files that the environment names."""

    target: str
    namespace: str
    tls: bool

    def __str__(self) -> str:
        namespace = f"/{self.namespace}" if self.namespace != "default" else ""
        return f"{_SCHEME}{self.target}{namespace}{'?tls=true' if self.tls else ''}"


class Placement(msgspec.Struct, frozen=True):
    """What a workflow needs to place its run: the label of its worker, and options for its next session."""

    run_id: str
    label: str | None = None
    options: list[str] = []


class HoldRequest(msgspec.Struct, frozen=True):
    run_id: str
    options: list[str] = []


class HoldResult(msgspec.Struct, frozen=True):
    """How a session ended. With `resumes_at` (ISO 8601), the run continues by itself then."""

    reason: str
    detail: str | None = None
    resumes_at: str | None = None


def option_value(options: list[str], name: str) -> str | None:
    return next((option.partition("=")[2] for option in options if option.startswith(f"{name}=")), None)


def queue_of(label: str | None) -> str:
    """Return the task queue of runs that need this label; without one, any worker takes them."""
    return f"{WORKFLOW_QUEUE}-any" if label is None else f"{WORKFLOW_QUEUE}-label-{label}"


def parse_engine(text: str) -> EngineAddress:
    """Parse `temporal://host:port/namespace?tls=true`."""
    rest, _, options = text.partition("?")
    authority, _, namespace = rest.removeprefix(_SCHEME).partition("/")
    host, _, port = authority.partition(":")
    if not text.startswith(_SCHEME) or not host or "@" in authority or not (port or "0").isdecimal():
        raise BadInput(f"{text!r} is not the address of a Temporal server; it looks like temporal://host:7233")
    if options not in ("", "tls=true"):
        raise BadInput(f"{text!r}: {options!r} is not an option; the only one is tls=true")
    return EngineAddress(f"{host}:{port or _DEFAULT_PORT}", namespace or "default", bool(options))


def chosen_engine(home: Home, given: str | None = None) -> EngineAddress:
    """Return the given address, else that of `HOLDFAST_ENGINE`, else that of the user's config."""
    text = given or os.environ.get(ENGINE_VARIABLE) or load_config(home=home).settings.cluster.engine
    if not text:
        raise BadInput(
            "no Temporal server is named; set cluster.engine in your config, or HOLDFAST_ENGINE=temporal://host:7233"
        )
    return parse_engine(text)


def require_cluster_store(home: Home) -> None:
    """Raise `BadInput` unless the runs are where every machine reaches them."""
    if home.store_url is None:
        raise BadInput(
            "runs are kept in files of this machine; a cluster needs a database: set HOLDFAST_STORE=postgresql://…"
        )
