"""Other beginnings of an operator."""
