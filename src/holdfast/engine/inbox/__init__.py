"""Messages into a run: sending them, and acting on them."""
