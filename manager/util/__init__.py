"""Small parts that know nothing of Kubernetes: addresses, durations, quantities, clocks, files."""
