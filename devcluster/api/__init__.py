"""The API server, from requests to responses, independent of the transport."""
