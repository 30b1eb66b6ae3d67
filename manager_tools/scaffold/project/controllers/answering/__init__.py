"""Templates of the webhook methods that `create webhook` adds to an operator."""
