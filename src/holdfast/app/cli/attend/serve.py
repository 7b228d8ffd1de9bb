"""`holdfast serve`: the page in the browser, and the API that it uses."""

import argparse
import json
import os
import subprocess
import sys

from holdfast.app.cli.arguments import Parser
from holdfast.app.cli.unit import add_unit_options, install, uninstall
from holdfast.app.text.screen import printable
from holdfast.engine.commands.user_unit import UserUnit
from holdfast.engine.home import Home
from holdfast.leaf.errors import EXIT_INTERRUPTED, EXIT_OK, BadInput

DEFAULT_PORT = 7433
_MAX_PORT = 65_535

_EXAMPLES = """\
  holdfast serve --open               the page, in your browser; Ctrl-C ends the server, the runs continue
  holdfast serve --open auth-system   the page of one run; also when a server is running already
  holdfast serve --install            start it at boot, and resume runs after a power cut
  holdfast serve --new-token          sign every browser and program out
  holdfast serve --api-only --json    the API alone; prints where its token is"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        "serve",
        "Serve the board, the conversations and the decisions of all runs to a browser on this machine, and the API\n"
        "that docs/api.md describes. Resumes interrupted runs as `holdfast watch` does. Whoever has its token can do\n"
        "what you can: it listens on 127.0.0.1 only, and lets in only browsers that you sign in.",
        _EXAMPLES,
    )
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, metavar="N", help=f"default: {DEFAULT_PORT}")
    parser.add_argument(
        "--open", nargs="?", const="", metavar="RUN", help="open the page in your browser; with RUN, the page of that"
    )
    parser.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="the name of a TLS proxy in front of it"
    )
    parser.add_argument("--terminal", action="store_true", help="allow terminals also with --allow-host")
    parser.add_argument("--api-only", action="store_true", help="without the page")
    parser.add_argument("--no-watch", action="store_true", help="do not resume interrupted runs")
    add_unit_options(parser)
    parser.add_argument("--new-token", action="store_true", help="make a new token, and end")
    options = parser.parse_args(arguments)
    home = Home()
    home.check_writable()
    if options.new_token:
        return _make_new_token(home, as_json=options.json)
    if options.uninstall:
        return uninstall(_unit(options), as_json=options.json)
    _check_address(options)
    if options.install:
        return install(home, _unit(options), as_json=options.json)
    return _serve(home, options)


def _unit(options: argparse.Namespace) -> UserUnit:
    """The same server at boot: what was chosen here, besides what only a person at a terminal wants."""
    words = ["--port", str(options.port), "--bind", options.bind]
    for name in options.allow_host:
        words += ["--allow-host", name]
    words += [f"--{name.replace('_', '-')}" for name in ("terminal", "api_only", "no_watch") if getattr(options, name)]
    return UserUnit("serve", "the page and the API; resumes interrupted runs", tuple(words))


def _serve(home: Home, options: argparse.Namespace) -> int:
    from holdfast.app.web.bundle_files import has_bundle
    from holdfast.app.web.server import PortTaken, Started, open_file_of, run_server, sign_in_file
    from holdfast.app.web.site import Options

    if not options.api_only and not has_bundle():
        raise BadInput("the page is not built; build it with `make web`, or serve the API alone: --api-only")

    shown_run = home.find_run(options.open) if options.open else None

    def show(started: Started) -> None:
        if options.json:
            print(json.dumps({"url": started.url, "open": started.open_file, "token": started.token_file}), flush=True)
        else:
            sys.stderr.write(f"serving {started.url}\nsign a browser in with: {printable(started.open_file)}\n")
            sys.stderr.flush()
        if options.open is not None:
            _open(sign_in_file(home, started.open_file, shown_run))

    chosen = Options(
        options.port,
        options.bind,
        tuple(options.allow_host),
        terminal=options.terminal or not options.allow_host,
        supervise=not options.no_watch,
        page=not options.api_only,
    )
    try:
        run_server(home, chosen, show)
    except PortTaken:
        running = open_file_of(home, options.port)
        if options.open is None or not os.path.exists(running):
            raise
        _open(sign_in_file(home, running, shown_run))
        return EXIT_OK
    return EXIT_INTERRUPTED


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number up to 65535")
    return int(text)


def _check_address(options: argparse.Namespace) -> None:
    import ipaddress

    try:
        address = ipaddress.ip_address(options.bind)
    except ValueError:
        raise BadInput(f"--bind {options.bind}: give an IP address, such as 127.0.0.1") from None
    if not address.is_loopback and not options.allow_host:
        raise BadInput(
            f"--bind {options.bind} lets other machines in; reach it by ssh -L instead, or put it behind a TLS proxy "
            "and name that with --allow-host NAME"
        )


def _make_new_token(home: Home, *, as_json: bool) -> int:
    from holdfast.app.web.access import FOLDER, load_token

    load_token(home, new=True)
    path = home.file(FOLDER, "token")
    if as_json:
        print(json.dumps({"token": path}))
    else:
        sys.stderr.write(f"wrote a new token to {printable(path)}; restart a running server to use it\n")
    return EXIT_OK


def _open(file: str) -> None:
    """Open the file that signs the browser in. The code is in the file, not in an argument."""
    for command in (("xdg-open", file), ("wslview", file), ("open", file)):
        try:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            continue
        return
    sys.stderr.write(f"no browser was found; open this file in one: {printable(file)}\n")
