"""The Agent Client Protocol, client side: one agent process, its updates as events, the files it may touch."""
