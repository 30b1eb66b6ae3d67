"""`operator-manager` whose webhook certificates last for seconds: a renewal that a test can wait for.

    run_manager(kubeconfig, *flags, program=(sys.executable, "-m", "tests.integration.webhook.short_lived"))

The program is otherwise unchanged, but its delays of seconds are shorter, in proportion to the lifetimes.
"""

from __future__ import annotations

import functools
import sys
from datetime import timedelta

import controllers.main
import manager.certificates.factory
import manager.tls.served
from manager.certificates.factory import secret_certificates
from manager.certificates.rotation import Lifetimes

LIFETIMES = Lifetimes(
    authority=timedelta(seconds=36),
    serving=timedelta(seconds=12),
    settle=timedelta(seconds=2),
    retire=timedelta(seconds=5),
)

if __name__ == "__main__":
    manager.certificates.factory.secret_certificates = functools.partial(  # type: ignore[assignment]
        secret_certificates, lifetimes=LIFETIMES, look_every=0.5, read_every=0.5
    )
    manager.tls.served.RECHECK_INTERVAL = 0.5
    sys.exit(controllers.main.main())
