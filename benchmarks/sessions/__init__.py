"""What is done to the programs, and what is read meanwhile: one module for each kind of control plane."""
