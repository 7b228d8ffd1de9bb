"""`holdfast agent builtin`: a coding agent for any model endpoint."""

import os

from holdfast.app.cli.arguments import Parser
from holdfast.engine.commands.programs.builtin_agent import BuiltinOptions, serve_builtin_agent
from holdfast.leaf.errors import EXIT_OK, BadInput

_EXAMPLES = """\
  holdfast agent builtin --model anthropic:claude-sonnet-4-5
  holdfast agent builtin --model openai:qwen3-coder --base-url http://localhost:11434/v1
  holdfast agent builtin --model google:gemini-2.5-pro --mode code"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "agent builtin",
        "A coding agent that speaks the Agent Client Protocol on stdin and stdout. It works inside the folder that\n"
        "its client names, and saves every step, so that it continues after a kill at the step where it stopped.",
        _EXAMPLES,
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER:NAME",
        default=os.environ.get("HOLDFAST_MODEL"),
        help="openai (any compatible endpoint), openai-responses, anthropic or google (default: $HOLDFAST_MODEL)",
    )
    parser.add_argument("--base-url", metavar="URL", help="the endpoint (default: the provider's own)")
    parser.add_argument(
        "--key-env", metavar="NAME", help="the variable with the API key (default: the provider's usual one)"
    )
    parser.add_argument(
        "--mode", choices=("ask", "code"), default="ask", help="ask before changes, or not (default: ask)"
    )
    parser.add_argument(
        "--max-steps", type=int, default=100, metavar="N", help="maximum model calls in one turn (default: 100)"
    )
    parser.add_argument(
        "--max-wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long to wait for a rate limit; a longer one ends the turn (default: 60)",
    )
    parser.add_argument(
        "--retries", type=int, default=4, metavar="N", help="retries of a call that failed temporarily (default: 4)"
    )
    parser.add_argument(
        "--backoff",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="pause before the first retry, then doubled (default: 1)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="how long the model may send nothing (default: 300)",
    )
    parser.add_argument(
        "--context-window", type=int, metavar="TOKENS", help="the model's context window, if Holdfast does not know it"
    )
    parser.add_argument(
        "--pass-env", action="append", default=[], metavar="NAME", help="a variable to pass to shell commands"
    )
    options = parser.parse_args(arguments)
    if not options.model:
        raise BadInput("no model: give --model PROVIDER:NAME or set HOLDFAST_MODEL")
    serve_builtin_agent(
        BuiltinOptions(
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
            passed_variables=tuple(options.pass_env),
        )
    )
    return EXIT_OK
