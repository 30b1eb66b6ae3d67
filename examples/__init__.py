"""Programs to copy from: each stands on the client library, and on no manager."""
