"""Small faults planted into the code, one at a time: each is one that the tests find, or that they should."""
