"""Commands that attend to a run: attach, send, approve, deny, stop, wait."""
