"""`holdfast agent builtin`: our own coding agent, for people who have only a model endpoint."""

import os

from holdfast.app.cli.arguments import Parser
from holdfast.engine.agents.builtin_agent import Choices, serve_builtin_agent
from holdfast.leaf.errors import OK, BadInput

_EXAMPLES = """\
  holdfast agent builtin --model anthropic:claude-sonnet-4-5
  holdfast agent builtin --model openai:qwen3-coder --base-url http://localhost:11434/v1
  holdfast agent builtin --model google:gemini-2.5-pro --mode code"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "agent builtin",
        "A coding agent that speaks the Agent Client Protocol on stdin and stdout. It works inside the folder that\n"
        "its client names, saves every step, and goes on after a kill from the step it was at.",
        _EXAMPLES,
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        default=os.environ.get("HOLDFAST_MODEL"),
        help="openai (any compatible endpoint), openai-responses, anthropic or google; else $HOLDFAST_MODEL",
    )
    parser.add_argument("--base-url", metavar="URL", help="of the endpoint, when it is not the provider's own")
    parser.add_argument("--key-env", metavar="NAME", help="the variable with the API key, when not the usual one")
    parser.add_argument("--mode", choices=("ask", "code"), default="ask", help="ask before changes, or not (ask)")
    parser.add_argument("--max-steps", type=int, default=100, metavar="N", help="model calls in one turn (100)")
    parser.add_argument(
        "--max-wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="for a rate limit; a longer one ends the turn (60)",
    )
    parser.add_argument("--retries", type=int, default=4, metavar="N", help="of a call that failed in passing (4)")
    parser.add_argument(
        "--backoff", type=float, default=1.0, metavar="SECONDS", help="before the first repetition, then doubled (1)"
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="without a byte from the model (300)"
    )
    parser.add_argument("--context-window", type=int, metavar="TOKENS", help="of the model, when it is not known")
    parser.add_argument(
        "--pass-env", action="append", default=[], metavar="NAME", help="a variable that shell commands may see"
    )
    options = parser.parse_args(arguments)
    if not options.model:
        raise BadInput("no model: give --model PROVIDER:NAME, or set HOLDFAST_MODEL")
    serve_builtin_agent(
        Choices(
            model=options.model,
            base_url=options.base_url,
            key_variable=options.key_env,
            mode=options.mode,
            max_steps=options.max_steps,
            max_wait=options.max_wait,
            retries=options.retries,
            backoff=options.backoff,
            timeout=options.timeout,
            context_window=options.context_window,
            passed=tuple(options.pass_env),
        )
    )
    return OK
