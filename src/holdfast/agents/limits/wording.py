"""How agents say in a message, instead of an error, that their provider's limit is reached or that it is away.

Each is a regular expression for the beginning of a message that says nothing else.
"""

from typing import NamedTuple


class Wording(NamedTuple):
    quota: tuple[str, ...] = ()
    outage: tuple[str, ...] = ()


_ENDS = r"(?!\s+(?!resets)\w)"  # a sentence that goes on is about limits
_API_QUOTA = r"\[?API Error:? .{0,200}?(?:\b429\b|quota|rate.?limit|exhausted|throttl)"
_API_OUTAGE = (
    r"\[?API Error:? .{0,200}?(?:\b5(?:0[0234]|29)\b|overloaded|unavailable|fetch failed|timed out|connection error"
    r"|ECONN|ENOTFOUND|unable to connect|connection was closed|no capacity available)"
)

CLAUDE = Wording(
    quota=(
        r"Claude (?:AI )?(?:usage|rate) limit (?:was )?(?:reached|exceeded)",
        r"You(?:'|’)ve (?:hit|reached|used up) your (?:[\w'’-]+ ){0,4}limit",
        r"You(?:'|’)ve used up your (?:extra )?usage",
        r"You have reached your specified (?:\w+ )*usage limits",
        r"Your org(?:anization)? (?:is out of|has (?:hit|reached|used up) its) (?:\w+ ){0,3}(?:usage|limit|credits)",
        rf"(?:(?:\d+-hour|weekly|daily|session|usage|opus|sonnet|fable)(?: \w+)? )?limit reached{_ENDS}",
        rf"Spend(?:ing)? cap reached{_ENDS}",
        r"You(?:'|’)re out of (?:extra )?(?:usage|credits)",
        r"Credit balance is too low",
        r"\[?API Error:? .{0,200}?(?:usage limit|credit balance is too low)",
        _API_QUOTA,
    ),
    outage=(_API_OUTAGE,),
)
CODEX = Wording(
    quota=(
        r"You(?:'|’)ve (?:hit|reached) your (?:\w+ )?(?:usage )?limit",
        r"exceeded retry limit, last status:? 429",
        r"Quota exceeded\b",
        r"(?:stream disconnected before completion: )?Rate limit reached for ",
        r"unexpected status 429",
        r"Your workspace is out of credits",
        r"You(?:'|’)?(?:ve)? (?:hit|reached) (?:your|the) spend cap",
    ),
    outage=(
        r"Selected model is at capacity",
        r"error sending request for url",
        r"stream (?:disconnected|error)\b",
        r"exceeded retry limit, last status:? 5\d\d",
        r"unexpected status 5\d\d",
        r"We(?:'|’)re currently experiencing high demand",
    ),
)
GEMINI = Wording(
    quota=(
        r"You (?:have )?exceeded your (?:current )?quota",
        r"You have exhausted your (?:daily )?(?:quota|capacity)",
        r"You have reached your (?:daily )?[\w.-]+ quota limit",
        r"Quota exceeded for (?:quota )?metric",
        r"Resource has been exhausted \(",
        r"Usage limit reached for (?:all )?[\w.-]+(?: models)?\.",
        r"(?:Rate limiting detected|Possible quota limitations)",
        _API_QUOTA,
    ),
    outage=(_API_OUTAGE, r"We(?:'|’| a)re currently experiencing high demand"),
)
_COPILOT = r"(?:✗ )?(?:Execution failed: )?(?:Error: )?(?:Sorry, )?"
COPILOT = Wording(
    quota=(
        (
            rf"{_COPILOT}you(?:'|’| ha)ve (?:hit|exceeded|reached|exhausted|used up) (?:(?:all of|a|your|the|this) )+"
            r"(?:[\w'’]+ ){0,3}(?:limit|allowance|quota|premium requests)"
        ),
        rf"{_COPILOT}you(?:'|’| ha)ve been rate.limited",
        rf"{_COPILOT}(?:Quota exceeded: )?you have no quota",
        r"(?:✗ )?Execution failed: .{0,200}?(?:\b429\b|quota|rate.?limit|premium request)",
    ),
    outage=(
        r"(?:✗ )?Execution failed: .{0,200}?(?:\b50[0234]\b|fetch failed|ECONN|ENOTFOUND|unavailable)",
        r"Sorry, there was a network error",
    ),
)
QWEN = Wording(
    quota=(
        r"Qwen OAuth quota (?:has been )?exceeded",
        r"(?:Your )?free (?:daily )?quota (?:has been |is )?(?:reached|exceeded|used up)",
        r"(?:hour |week |month )?allocated quota exceeded",
        _API_QUOTA,
    ),
    outage=(_API_OUTAGE,),
)
OPENCODE = Wording(
    quota=(
        r"(?:Free )?usage (?:limit )?exceeded",
        rf"(?:(?:\d+-hour|monthly|weekly|daily) )?usage limit reached{_ENDS}",
        rf"(?:Subscription quota exceeded|Too Many Requests|Insufficient balance){_ENDS}",
        r"(?:(?:AI_)?APICallError: )?rate limit (?:exceeded|reached)",
        r"(?:AI_)?APICallError: .{0,200}?(?:quota|rate.?limit|too many requests|\b429\b)",
    ),
    outage=(
        r"(?:AI_)?APICallError: .{0,200}?(?:overloaded|unavailable|cannot connect|\b50[0234]\b)",
        r"(?:AI_)?RetryError: ",
        rf"Provider is overloaded{_ENDS}",
    ),
)
KIMI = Wording(
    quota=(
        r"You(?:'|’)ve (?:hit|reached) (?:your|the) (?:\w+ ){0,3}(?:limit|quota)",
        r"(?:LLM provider error: )?Error code: .{0,200}?(?:\b429\b|quota|rate.?limit|\b402\b|balance)",
        r"LLM provider error: .{0,200}?(?:\b429\b|quota|rate.?limit|\b402\b|balance)",
        r"Your (?:account|organization|plan) .{0,120}?(?:quota|rate limit|usage limit|insufficient balance)",
        r"Quota exceeded\b",
    ),
    outage=(r"LLM provider error: .{0,200}?(?:\b5\d\d\b|overloaded|connection error|timed out)",),
)
