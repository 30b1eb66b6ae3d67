"""An operator that upgrades a database in eight steps."""
