"""Agents in their own terminal UI, each in a window of a tmux server that belongs to the run alone."""
