"""Secrets, removed from what is recorded."""
