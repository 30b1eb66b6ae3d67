"""What operators would do to the objects that are there, tried by server-side dry run."""
