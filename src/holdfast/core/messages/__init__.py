"""What people and agents send into a run."""
