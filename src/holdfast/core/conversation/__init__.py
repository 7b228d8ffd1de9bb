"""Conversations: their states, history, interrupted turns, tool calls and permissions."""
