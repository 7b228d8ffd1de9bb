"""Tests of commands that read and write no files themselves, once more on a database: `stage` is another one here."""

from tests.cli.test_chat_json import test_death_of_the_runner_is_a_state, test_message_is_answered_with_events_and_hints
from tests.cli.test_run_permissions import (
    test_an_answer_from_another_process_reaches_the_agent,
    test_an_answer_given_while_nothing_is_alive_is_used,
)

__all__ = [
    "test_an_answer_from_another_process_reaches_the_agent",
    "test_an_answer_given_while_nothing_is_alive_is_used",
    "test_death_of_the_runner_is_a_state",
    "test_message_is_answered_with_events_and_hints",
]
