"""Pet operator: it keeps records in a pet store equal to Pets."""
