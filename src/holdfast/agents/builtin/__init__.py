"""Our own coding agent, for people who have only a model endpoint."""
