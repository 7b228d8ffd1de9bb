"""A real agent, over stdio, that plays a script: no key, no network, and it dies where the script says so."""
