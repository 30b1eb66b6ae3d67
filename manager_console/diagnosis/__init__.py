"""The state of an object and of its children, and the reasons for it: for the console and for `explain`."""
