"""What the operators of myapp.idcos.com do."""
