"""What agents are told, put together from the state of the run and its repository."""
