"""Each operator, run against an embedded control plane."""
