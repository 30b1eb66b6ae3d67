"""Small modules without Kubernetes: addresses, durations, quantities, clocks, files."""
