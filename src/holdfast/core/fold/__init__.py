"""Events → state: one handler per event type."""
