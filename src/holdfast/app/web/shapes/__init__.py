"""What the API answers and takes, as structs: the source of openapi.json."""
