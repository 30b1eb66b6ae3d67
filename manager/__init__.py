"""The runtime: everything a controller manager needs, and no kind of its own."""
