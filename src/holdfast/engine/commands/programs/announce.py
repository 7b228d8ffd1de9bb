"""Announces that an agent has read the list of its tools."""

from holdfast.engine.agents.listing_file import announce_tools

__all__ = ["announce_tools"]
