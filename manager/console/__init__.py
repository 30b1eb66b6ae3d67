"""What a running manager tells over HTTP: pages for people, and JSON for `explain`."""
