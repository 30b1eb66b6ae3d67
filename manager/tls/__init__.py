"""Certificates of our servers: read from files or created here, and renewed while the servers run."""
