"""Runs Python with these arguments, and without root's right to pass over file modes.

A program of its own: tests of unreadable files would prove nothing where root runs them.
"""

import ctypes
import os
import sys

_DROP_FROM_BOUNDING_SET = 24  # PR_CAPBSET_DROP
_PASS_OVER_MODES = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH

if __name__ == "__main__":
    if os.geteuid() == 0:
        for capability in _PASS_OVER_MODES:
            ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
