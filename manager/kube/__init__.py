"""Talking to an API server: configuration, one transport, discovery, errors, watch framing."""
