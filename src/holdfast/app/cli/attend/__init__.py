"""Commands for people beside a run: attach, send, approve, deny, stop, wait."""
