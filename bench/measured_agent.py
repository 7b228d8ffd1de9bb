"""The playbook agent, which adds the CPU time of its own process to a file when it ends.

python bench/measured_agent.py SCRIPT LOG
"""

import os
import resource
import sys
from typing import NoReturn

from holdfast.agents.playbook import program

_exit = os._exit


def _record_and_exit(status: int) -> NoReturn:
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open(sys.argv[2], "a", encoding="ascii") as file:
        file.write(f"{used.ru_utime + used.ru_stime}\n")
    _exit(status)


if __name__ == "__main__":
    os._exit = _record_and_exit
    sys.exit(program.serve(sys.argv[1], program.default_state()))
