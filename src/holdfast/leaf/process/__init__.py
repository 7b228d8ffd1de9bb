"""Processes of this machine: their identity, their end, the markers by which they are found again."""
