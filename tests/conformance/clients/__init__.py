"""Tests of unmodified third-party clients against each control plane."""
