"""Messages that people and agents send to a run."""
