"""The operators: what each does with its kinds."""
