"""`holdfast serve`: the API, the page that uses it, and who may."""
