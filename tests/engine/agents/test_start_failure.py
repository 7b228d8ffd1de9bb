"""What is told of an agent that did not start, and whether to try again."""

import pytest

from holdfast.agents.acp.driver import AgentExited, AgentSilent
from holdfast.engine.agents.start_failure import is_permanent, last_lines, start_failure_text

EXIT_2 = AgentExited("the agent died in initialize: it exited with code 2", "it exited with code 2", 2)
KILLED = AgentExited("the agent died in initialize: it was killed by SIGKILL", "it was killed by SIGKILL")
TRACE = """\
node:internal/modules/cjs/loader:1143
Error: Cannot find module 'x'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)
    at node:internal/main/run_main_module:28:49
Node.js v20.20.2
"""


def test_text_names_the_exit_code_and_the_reason() -> None:
    text = start_failure_text(
        "claude", EXIT_2, "holdfast: no model: give --model PROVIDER:NAME or set HOLDFAST_MODEL\n"
    )
    assert text == ("claude failed to start (exit code 2): no model: give --model PROVIDER:NAME or set HOLDFAST_MODEL")
    assert start_failure_text("claude", KILLED, "") == "claude failed to start (killed by SIGKILL)"
    silent = AgentSilent("the agent did not answer initialize within 30 s")
    assert start_failure_text("x", silent, "") == "x did not start: the agent did not answer initialize within 30 s"


def test_last_lines_are_the_ones_that_say_something() -> None:
    assert last_lines(TRACE) == "Error: Cannot find module 'x'"
    assert last_lines("\x1b[31mred\x1b[0m\n\n") == "red"
    assert last_lines("a\nb\nc\nd\n") == "b / c / d"
    assert last_lines("    at a\n    at b\n") == "at a / at b"
    assert len(last_lines("x" * 10_000)) < 500


@pytest.mark.parametrize(
    ("code", "stderr", "permanent"),
    [
        (2, "", True),
        (127, "", True),
        (1, "", False),
        (1, TRACE, True),
        (1, "Error: not logged in. Please run /login", True),
        (1, "connection refused", False),
        (0, TRACE, False),
        (None, TRACE, False),
    ],
)
def test_attempt_that_would_end_the_same_way_is_not_repeated(code: int | None, stderr: str, permanent: bool) -> None:
    assert is_permanent(AgentExited("it died", "it died", code), stderr) is permanent
