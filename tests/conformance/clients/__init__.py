"""Tests of third-party Kubernetes clients, unmodified, against each control plane."""
