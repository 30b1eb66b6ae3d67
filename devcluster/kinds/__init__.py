"""What a kind is to the server: its names, its schema, its rules; and where all kinds are known."""
