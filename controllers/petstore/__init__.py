"""Pet operator: it keeps one record in a pet store for each Pet."""
