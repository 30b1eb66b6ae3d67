"""The process: what runs in it, and when it starts and stops."""
