"""The template of a project: `init` and `create` copy this working project under other names."""
