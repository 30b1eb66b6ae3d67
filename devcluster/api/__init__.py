"""The API server: requests in, answers out, whatever carries them."""
