"""Processes of this machine: identity, exit, and the markers that identify processes of a run."""
