"""The process: its components, and the order in which they start and stop."""
