"""Where whole runs are at home whose agent is the built-in one: it is warm there, and so is a model that it can ask."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.crash_suite.warm_programs import Nursery, nursery
from tests.support.model_server.script import Script
from tests.support.model_server.server import ModelServer

# What the built-in agent loads when it is started: too much for a nursery in which there is none.
MODULES = (
    "holdfast.agents.builtin.serve",
    "pydantic_ai.direct",
    "pydantic_ai.models.openai",
    "genai_prices.data_snapshot",
)


@contextmanager
def modelled_nursery(folder: str, script: Script) -> Iterator[Nursery]:
    with ModelServer(script) as model, nursery(folder, *MODULES, model=model.base_url("openai")) as found:
        yield found
