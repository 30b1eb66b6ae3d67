"""Small modules without Kubernetes: addresses, durations, the event loop, YAML, clocks, files."""
