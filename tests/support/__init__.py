"""What the tests stand on: control planes, the manager as a real process, a proxy that makes faults."""
