"""How to go on past what went wrong, in the words of `--on-issue`."""

import sys

from holdfast.app.cli.screen import plain
from holdfast.core.analysis import Analysis
from holdfast.core.decision import Choice, Option
from holdfast.engine.ways import Way
from holdfast.leaf.errors import BadInput

_WORDS = {"fix": (Choice.FIX, Choice.RESTART), "skip": (Choice.SKIP,), "replan": (Choice.REPLAN,)}


def by_policy(analysis: Analysis, policy: str) -> Way | None:
    if policy == "ask":
        return None
    offered = {option.choice: option for option in analysis.decision.options}
    for choice in _WORDS.get(policy, ()):
        if choice in offered:
            warn_of(offered[choice])
            return Way(choice)
    if policy in _WORDS:
        raise BadInput(f"--on-issue {policy} does not fit here; the choices are {', '.join(offered)}")
    return Way(Choice.CUSTOM, policy)


def word_of(way: Way) -> str:
    """What a runner is told that shall go this way."""
    words = {choice: word for word, choices in _WORDS.items() for choice in choices}
    return way.words or words[way.choice]


def warn_of(option: Option) -> None:
    if option.warning:
        sys.stderr.write(f"warning: {plain(option.warning)}\n")
