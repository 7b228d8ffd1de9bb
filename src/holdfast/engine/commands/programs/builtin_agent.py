"""Runs the built-in agent as a process that speaks the Agent Client Protocol on stdin and stdout."""

import importlib.util
import os
from dataclasses import dataclass

from holdfast.agents.builtin.models import KEY_VARIABLES, Endpoint
from holdfast.agents.builtin.secrets import Secrets, take_from_environment
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput

_INSTALL_HINT = "the built-in agent needs the model library: pip install 'holdfast[builtin]'"


@dataclass(frozen=True, slots=True)
class BuiltinOptions:
    """The command line options."""

    model: str
    base_url: str | None = None
    key_variable: str | None = None
    mode: str = "ask"
    max_steps: int = 100
    max_wait: float = 60.0
    retries: int = 4
    backoff: float = 1.0
    timeout: float = 300.0
    context_window: int | None = None
    passed_variables: tuple[str, ...] = ()


def serve_builtin_agent(options: BuiltinOptions) -> None:
    """Serve until the client closes the connection."""
    if importlib.util.find_spec("pydantic_ai") is None:
        raise BadInput(_INSTALL_HINT)
    provider, name = Endpoint.split_name(options.model)
    variables = (options.key_variable,) if options.key_variable else KEY_VARIABLES[provider]
    secrets = {
        each: take_from_environment(each) for each in {*variables, *(v for vs in KEY_VARIABLES.values() for v in vs)}
    }
    key = next((secrets[each] for each in variables if secrets[each]), None)
    if key is None and options.base_url is None:
        raise BadInput(f"no API key: set {' or '.join(variables)}, or give --base-url of an endpoint that needs none")
    try:  # the optional extra is heavy, so it is imported after everything else was checked
        from holdfast.agents.builtin.acp_server import BuiltinSettings  # noqa: PLC0415
        from holdfast.agents.builtin.loop import Limits  # noqa: PLC0415
        from holdfast.agents.builtin.serve import serve  # noqa: PLC0415
    except ImportError as error:
        raise BadInput(f"{_INSTALL_HINT} ({error})") from error
    endpoint = Endpoint(provider, name, options.base_url, key, options.timeout, options.context_window)
    serve(
        BuiltinSettings(
            endpoint=endpoint,
            folder=os.path.join(Home(), "builtin", "sessions"),
            mode="code" if options.mode == "code" else "ask",
            limits=Limits(options.max_steps, options.max_wait, options.retries, options.backoff),
            passed_variables=options.passed_variables,
            secrets=Secrets(value for value in secrets.values() if value),
        )
    )
