"""The console of a running manager: pages for people, and reports about objects as JSON for `explain`."""
