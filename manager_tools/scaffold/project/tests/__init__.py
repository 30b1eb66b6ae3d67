"""Tests that run each operator on an embedded control plane."""
