"""Traces by OpenTelemetry, imported only if the standard `OTEL_*` variables request them."""
