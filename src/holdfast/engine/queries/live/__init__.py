"""A run while a process works on it: what changes, what agents say, who still runs."""
