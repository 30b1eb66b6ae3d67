"""Managers and a control plane in one process and in virtual time, where anything may go wrong."""
