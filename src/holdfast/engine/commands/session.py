"""Runs one session of a run in this process, until it is done, stuck or stopped."""

from holdfast.engine.session.resume_choice import Chooser, SessionResult
from holdfast.engine.session.session import SessionHandle, SessionOptions, run_session

__all__ = ["Chooser", "SessionHandle", "SessionOptions", "SessionResult", "run_session"]
