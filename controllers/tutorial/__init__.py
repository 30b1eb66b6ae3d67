"""What the operators of tutorial.my.domain do."""
