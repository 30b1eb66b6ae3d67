"""`make demo`: the manager with every operator on an embedded control plane, and a live view."""
