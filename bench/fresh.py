"""Starting probes in processes of their own, and reading what they found."""

import subprocess
import sys

import msgspec

from bench.homes import RUN
from bench.places import ROOT


class Found(msgspec.Struct):
    """`grown` is by how many bytes the process grew, at the most, after its imports."""

    seconds: list[float]
    events: int
    grown: int


def probe_command(what: str, home: str, count: int) -> list[str]:
    return [sys.executable, "-m", "bench.probe", what, home, RUN, str(count)]


def probe(what: str, home: str, count: int = 1) -> Found:
    done = subprocess.run(probe_command(what, home, count), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Found)
