"""Traces: the ids on events, and how events become spans."""
