"""What shows and asks. Calls only the engine."""
