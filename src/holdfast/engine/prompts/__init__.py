"""Builds prompts for agents from the state of the run and its repository."""
