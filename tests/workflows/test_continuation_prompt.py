"""The prompt that continues an interrupted turn: the request, what is known of its calls, what arrived since."""

from holdfast.core.conversation.interruption import CallOutcome, InterruptedTurn, KnownCall, ReceivedReport
from holdfast.workflows.continuation_prompt import MAX_CALLS, MAX_RESULT_CHARS, continue_turn, repeat_request

TURN = InterruptedTurn("add OAuth")


def call(outcome: CallOutcome, tool: str = "edit a.py", result: str = "") -> InterruptedTurn:
    return TURN._replace(calls=(KnownCall(tool, outcome, result),))


def test_the_request_is_restated_at_the_end() -> None:
    text = continue_turn(TURN)
    assert "do not repeat it" in text
    assert text.endswith("The request was:\nadd OAuth")
    assert "The machine went down" not in text


def test_after_a_reboot_files_may_be_missing() -> None:
    assert "files that you wrote in that turn may be missing" in continue_turn(TURN._replace(rebooted=True))


def test_each_call_is_told_with_its_outcome() -> None:
    assert "- `edit a.py`: completed: 3 lines" in continue_turn(call(CallOutcome.COMPLETED, result="3\nlines"))
    assert "- `edit a.py`: failed: no such file" in continue_turn(call(CallOutcome.FAILED, result="no such file"))
    assert "- `edit a.py`: it did not return; it may or may not have taken effect" in continue_turn(
        call(CallOutcome.UNKNOWN)
    )


def test_reports_to_holdfast_are_known_to_have_arrived_or_not() -> None:
    received = continue_turn(call(CallOutcome.RECEIVED, "request_research"))
    assert "do not call it again; you get the answer as a message" in received
    assert "Holdfast did not receive it; call it again" in continue_turn(call(CallOutcome.NOT_RECEIVED, "submit_case"))
    unseen = continue_turn(TURN._replace(reports=(ReceivedReport("request_research", "kelp"),)))
    assert "- `request_research` (`kelp`); you get the answer as a message" in unseen


def test_long_results_and_many_calls_are_cut() -> None:
    many = TURN._replace(
        calls=tuple(KnownCall(f"tool {n}", CallOutcome.COMPLETED, "x" * 999) for n in range(MAX_CALLS + 3))
    )
    text = continue_turn(many)
    assert "- 3 earlier calls are left out" in text
    assert "`tool 2`" not in text
    assert (
        f"`tool {MAX_CALLS + 2}`: completed: {'x' * MAX_RESULT_CHARS}… [{999 - MAX_RESULT_CHARS} more characters]"
        in text
    )


def test_messages_and_notices_come_with_either_prompt() -> None:
    for prompt in (continue_turn, repeat_request):
        text = prompt(TURN, ["mind the kelp"], ["The branch was lost."])
        assert text.index("add OAuth") < text.index("The branch was lost.") < text.index("mind the kelp")
    assert repeat_request(TURN) == "add OAuth"
