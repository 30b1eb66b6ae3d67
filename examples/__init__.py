"""Example programs, meant for copying: each uses the library for its own purpose."""
