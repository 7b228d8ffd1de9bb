"""The one tree of errors. Each carries the exit code that the command line gives for it.

HoldfastError                 1  the work failed
├── StorageFailed             1  a disk refused a write: nothing of it was acknowledged
├── BadInput                  2  wrong usage, or input that cannot be used
│   ├── BadFile               2  a file with mistakes, each with its line (leaf.mistakes)
│   ├── PlanRejected          2  a plan with a cycle, an unknown id, a duplicate
│   └── RunExists             2  a run with that id is there already
├── TimedOut                  3  a deadline passed
├── NothingToDo               4  there is nothing to act on
│   └── NoSuchRun             4  no run by that name
├── Denied                    5  not allowed
│   ├── Owned                 5  a live process owns the run
│   ├── Fenced                5  this process owned the run and no longer does
│   ├── AlreadyAnswered       5  the first answer to a request stands
│   └── PositionMismatch      5  the log is not where the writer thought it was
└── DecisionNeeded            6  a person has to choose

A message names the value, what was expected, and the next step to take.
"""

OK = 0
INTERRUPTED = 130


class HoldfastError(Exception):
    exit_code = 1

    @property
    def lines(self) -> tuple[str, ...]:
        """What a person is told, each on a line of its own."""
        return (str(self),)


class StorageFailed(HoldfastError):
    @classmethod
    def by(cls, error: OSError) -> "StorageFailed":
        """What the system did not let us do, as a line that its user can act on."""
        what = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
        where = f"{what}: " if what is not None else ""
        return cls(f"{where}{error.strerror or error}; nothing is lost, put that right and resume")


class BadInput(HoldfastError):
    exit_code = 2


class PlanRejected(BadInput):
    pass


class RunExists(BadInput):
    pass


class TimedOut(HoldfastError):
    exit_code = 3


class NothingToDo(HoldfastError):
    exit_code = 4


class NoSuchRun(NothingToDo):
    pass


class Denied(HoldfastError):
    exit_code = 5


class Owned(Denied):
    pass


class Fenced(Denied):
    pass


class AlreadyAnswered(Denied):
    pass


class PositionMismatch(Denied):
    pass


class DecisionNeeded(HoldfastError):
    exit_code = 6
