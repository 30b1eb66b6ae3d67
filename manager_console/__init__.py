"""The console of a running manager: pages for people, and its report of an object as JSON for `explain`."""
