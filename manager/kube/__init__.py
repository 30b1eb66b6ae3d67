"""Communication with an API server: configuration, one transport, discovery, errors, decoding."""
