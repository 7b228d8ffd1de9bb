"""The error tree. Each class carries the exit code of the command line.

HoldfastError                 1  the work failed
├── StorageFailed             1  a disk refused a write; the write was not acknowledged
├── BadInput                  2  wrong usage or unusable input
│   ├── BadFile               2  a file with mistakes, each with its line (leaf.text.mistakes)
│   ├── PlanRejected          2  a plan with a cycle, an unknown id or a duplicate
│   └── RunExists             2  a run with this id exists already
├── TimedOut                  3  a deadline passed
├── NothingToDo               4  there is nothing to act on
│   └── NoSuchRun             4  no run has this name
├── Denied                    5  not allowed
│   ├── RunOwned              5  a live process owns the run
│   ├── RunFenced             5  this process owned the run and no longer does
│   ├── AlreadyAnswered       5  the first answer to a request stands
│   └── PositionMismatch      5  the log does not end where the writer expected
└── DecisionNeeded            6  a person has to choose

A message names the value, what was expected, and the next step.
"""

EXIT_OK = 0
EXIT_INTERRUPTED = 130


class HoldfastError(Exception):
    exit_code = 1

    @property
    def lines(self) -> tuple[str, ...]:
        """The message, line by line."""
        return (str(self),)


class StorageFailed(HoldfastError):
    @classmethod
    def from_os_error(cls, error: OSError) -> "StorageFailed":
        """The error as one line that the user can act on."""
        path = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
        where = f"{path}: " if path is not None else ""
        return cls(f"{where}{error.strerror or error}. Nothing is lost: fix this, then resume the run")


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


class RunOwned(Denied):
    pass


class RunFenced(Denied):
    pass


class AlreadyAnswered(Denied):
    pass


class PositionMismatch(Denied):
    pass


class DecisionNeeded(HoldfastError):
    exit_code = 6
