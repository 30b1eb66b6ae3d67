"""Traces by OpenTelemetry, imported where the standard `OTEL_*` variables ask for them."""
