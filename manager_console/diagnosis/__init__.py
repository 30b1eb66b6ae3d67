"""The state of an object and of its children, and the reasons for it: for the console's pages and `explain`."""
