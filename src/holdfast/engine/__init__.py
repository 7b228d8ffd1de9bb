"""The only room that knows the others: it orders what they do, and serves the shells above."""
