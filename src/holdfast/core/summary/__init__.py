"""Summaries of a run for people: needs, gates, digest, spending."""
