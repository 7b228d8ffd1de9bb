"""Commands that publish a run's work: merge, push, pr."""
