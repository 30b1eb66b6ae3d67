"""Communication with an API server: configuration, transport, discovery, errors, decoding."""
