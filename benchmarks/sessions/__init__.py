"""The measurements: one module per kind of control plane."""
