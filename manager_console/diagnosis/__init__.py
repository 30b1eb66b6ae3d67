"""The state of an object and of its children, with the reasons, for the console's pages and `explain`."""
