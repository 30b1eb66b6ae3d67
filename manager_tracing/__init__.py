"""Traces by OpenTelemetry, imported if the standard `OTEL_*` variables request them."""
