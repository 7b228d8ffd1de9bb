"""What is to be done, in which order, and what its agents are told. It reads; it does nothing by itself."""
