"""The HTTP endpoints the process offers: metrics and health."""
