"""The program `operator-manager` with the operators of this project."""

from __future__ import annotations

import sys

from controllers.cache.settings import MEMCACHED_IMAGE
from controllers.example.settings import MYSQL_IMAGE, WORDPRESS_IMAGE
from controllers.petstore.settings import (
    PETSTORE_ADDRESS,
    PETSTORE_CHECK_INTERVAL,
    PETSTORE_TIMEOUT,
    PETSTORE_TLS,
)
from controllers.settings import PROXY_CREDENTIALS
from manager.cli import Operator
from manager.cli import main as run_command
from manager.program import Program
from manager.version import VERSION

__all__ = ["OPERATORS", "PROGRAM", "main"]

PROGRAM = Program("operator-manager", VERSION)
"""It is released together with the library."""

OPERATORS = (
    Operator(
        "memcached",
        "controllers.cache.memcached",
        settings=(MEMCACHED_IMAGE, PROXY_CREDENTIALS),
        webhooks="controllers.cache.webhooks",
    ),
    Operator("foo", "controllers.tutorial.foo"),
    Operator(
        "pet",
        "controllers.petstore.pet",
        settings=(PETSTORE_ADDRESS, PETSTORE_TIMEOUT, PETSTORE_CHECK_INTERVAL, *PETSTORE_TLS),
        webhooks="controllers.petstore.webhooks",
    ),
    Operator(
        "wordpress",
        "controllers.example.wordpress",
        settings=(MYSQL_IMAGE, WORDPRESS_IMAGE, PROXY_CREDENTIALS),
        webhooks="controllers.example.webhooks",
    ),
    Operator("mysrv", "controllers.myapp.mysrv"),
)
"""Every operator; each is imported only where it runs or its definitions are printed."""


def main() -> int:
    """Run the command line; returns the exit code."""
    return run_command(sys.argv[1:], OPERATORS, name=PROGRAM.name, version=PROGRAM.version)


if __name__ == "__main__":
    sys.exit(main())
