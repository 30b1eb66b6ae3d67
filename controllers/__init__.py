"""The project's operators, by API group."""
