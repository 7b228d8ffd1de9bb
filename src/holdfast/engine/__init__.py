"""The engine combines the other packages. Public are `home`, `queries` and `commands`; all else is private."""
