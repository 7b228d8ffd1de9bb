"""What speaks to an agent: its process and all that comes of it, its protocol, and its frames as events."""
