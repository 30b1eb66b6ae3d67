"""Telemetry of a running manager: logs, metrics, traces, health and reconcile records."""
