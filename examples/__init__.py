"""Example programs to copy from: each uses the library for its own purpose."""
