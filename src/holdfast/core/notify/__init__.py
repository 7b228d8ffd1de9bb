"""Notifications: when a person is told something, and what."""
