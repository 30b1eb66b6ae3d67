"""Example programs that use the library; they are meant for copying."""
