"""What the scripted model says: rules, tried in order, each with an answer. All of it can be written as JSON."""

import re
from typing import Literal

import msgspec

from tests.support.model_server.seen import Seen


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    input: dict[str, object] = {}
    id: str | None = None


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    input: int = 11
    output: int = 7
    cached: int = 0
    reasoning: int = 0


FaultKind = Literal["rate_limit", "quota", "server_error", "overloaded", "context_length", "auth", "rejected"]


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error in the vendor's own words and status. `in_stream`: after the stream has begun."""

    kind: FaultKind
    retry_after: float | None = None  # seconds: the retry-after header, and RetryInfo for Google
    resets_at: float | None = None  # seconds since 1970: the vendor's reset headers
    status: int | None = None
    message: str | None = None
    in_stream: bool = False


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`text` goes out in pieces of `piece` characters. Trouble comes before piece number `after` of the answer."""

    text: str = ""
    recall: str | None = None  # a pattern: the text is what fits it in the conversation, each once, or "nothing"
    thinking: str = ""
    tools: list[ToolUse] = []
    usage: Usage = Usage()
    stop: Literal["end", "length", "refusal"] | None = None
    piece: int = 16
    fault: Fault | None = None
    after: int = 0
    gate: str | None = None  # wait until it is opened
    hang: bool = False  # wait for ever
    broken: bool = False  # close the connection
    delay: float = 0.0  # seconds before each piece: a slow model

    def to(self, seen: Seen) -> "Answer":
        """This answer, said by a model that has seen that."""
        if self.recall is None:
            return self
        found = dict.fromkeys(re.findall(self.recall, seen.all_text))
        return msgspec.structs.replace(self, text=" ".join(found) or "nothing")


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every condition that is given must hold. `times`: how often it may answer."""

    answer: Answer
    user: str | None = None  # a pattern in the last thing the user said
    anywhere: str | None = None  # a pattern in the whole conversation, tool results too
    result: str | None = None  # a pattern in the newest tool results
    system: str | None = None
    offered: list[str] | None = None  # tools that must all be on offer
    call: int | None = None  # the nth call that is no side call, counted from 1
    vendor: str | None = None
    model: str | None = None
    side: bool = False
    times: int | None = None

    def fits(self, seen: Seen, call: int) -> bool:
        return (
            self.side == seen.side
            and self.call in (None, call)
            and self.vendor in (None, seen.vendor)
            and _found(self.model, seen.model)
            and _found(self.user, seen.last_user)
            and _found(self.system, seen.system)
            and _found(self.result, "\n".join(seen.newest_results))
            and _found(self.anywhere, seen.all_text)
            and (self.offered is None or set(self.offered) <= set(seen.tools))
        )


class Script(msgspec.Struct):
    rules: list[Rule] = []
    otherwise: Answer | None = None  # with none, an unexpected call is an error, and remembered as one
    side: Answer = Answer(text="A scripted title")


def in_turn(*answers: Answer) -> Script:
    """One answer a call, in this order."""
    return Script([Rule(answer, times=1) for answer in answers])


def _found(pattern: str | None, text: str) -> bool:
    return pattern is None or re.search(pattern, text, re.DOTALL) is not None
