"""Sends notifications: durable, in order of events, by whoever owns the run or supervises it."""
