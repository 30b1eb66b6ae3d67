"""The process: its parts, and the order in which they start and stop."""
