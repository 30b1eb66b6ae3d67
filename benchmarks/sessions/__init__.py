"""The measurement sessions, and the modules that they share."""
