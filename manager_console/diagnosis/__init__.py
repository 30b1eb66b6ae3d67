"""The state of an object and its children, with the reasons, for the console's pages and `explain`."""
