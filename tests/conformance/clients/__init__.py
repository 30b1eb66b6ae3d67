"""Other people's clients, as they are, against each control plane."""
