"""The methods that `create webhook` adds to an operator."""
