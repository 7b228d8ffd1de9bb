"""`holdfast` as a child of the zygote: whatever it starts by its interpreter comes from there too.

A test may have it live in another time, obey file modes though it is root's, or find no room for large files.
"""

import ctypes
import itertools
import os
import pkgutil
import resource
import sys
import time

from holdfast.app import cli
from holdfast.app.cli.main import main
from holdfast.leaf.failpoints import FAILPOINT_FILE_VARIABLE, FAILPOINT_VARIABLE

# By these names, for the built-in agent hands nothing else on to what it starts.
STAND_IN, ZYGOTE, FAILPOINT, FAILPOINT_FILE, CLOCK, OBEDIENT, FILE_SIZE = (
    f"HOLDFAST_TEST_{what}"
    for what in ("STAND_IN", "ZYGOTE", "FAILPOINT", "FAILPOINT_FILE", "CLOCK", "OBEDIENT", "FILE_SIZE")
)

_PASS_OVER_MODES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_DROP_FROM_BOUNDING_SET = 24
_CAPABILITIES = 0x20080522  # the version of their structure

# What is loaded late, by some commands only: children find it there.
MODULES = (
    *(module.name for module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}.")),
    "encodings.ascii",
    "encodings.utf_8_sig",
    "holdfast.agents.limits.recognize",
    "holdfast.engine.commands.session",
    "holdfast.engine.session.phase_steps",
    "holdfast.engine.session.summary",
    "holdfast.store.files.catalog",
    "holdfast.store.files.store",
    "holdfast.engine.commands.programs.report_tools",
    "holdfast.agents.playbook.program",
    "holdfast.engine.session.session",
)


def run(arguments: list[str]) -> int:
    """Under the failpoint of the whole test: Holdfast does not pass it on, so it is put back for each process here."""
    sys.executable = os.environ[STAND_IN]
    if FAILPOINT in os.environ:
        os.environ[FAILPOINT_VARIABLE], os.environ[FAILPOINT_FILE_VARIABLE] = (
            os.environ[FAILPOINT],
            os.environ[FAILPOINT_FILE],
        )
    if CLOCK in os.environ:
        _live_in_another_time(os.environ[CLOCK])
    if OBEDIENT in os.environ:
        _obey_modes()
    if FILE_SIZE in os.environ:
        most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ[FILE_SIZE]), most))
    return main(arguments)


def _live_in_another_time(how: str) -> None:
    """`-3600` is an hour ago; `jumping` is a clock that is set back by an hour each time that it is asked."""
    real, asked = time.time_ns, itertools.count()
    time.time_ns = lambda: real() - (next(asked) * 3600 if how == "jumping" else -int(how)) * 1_000_000_000


def _obey_modes() -> None:
    """Without root's right to pass over them, and so whatever it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    for capability in _PASS_OVER_MODES:
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    assert libc.capget(header, sets) == 0
    for part in (0, 1, 2):  # effective, permitted, inheritable
        sets[part] &= ~sum(1 << capability for capability in _PASS_OVER_MODES)
    assert libc.capset(header, sets) == 0
