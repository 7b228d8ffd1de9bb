"""Acting on runs from outside: create, supervise, answer, publish, archive, repair. Part of the public API."""
