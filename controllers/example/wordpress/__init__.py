"""Wordpress: a WordPress site with a MySQL database of its own.

watches     what makes a site be looked at
reconciler  the steps, in order
volumes     claims: created once, taken up again, grown
passwords   the root password's source, and the Secret that keeps both passwords
ownership   whose a volume or a Secret is
workloads   the wanted Deployments and Services
status      conditions and address
obstacles   what stands in the way
names       what everything is called
"""

from __future__ import annotations

from controllers.example.wordpress.watches import KINDS, RECONCILERS, setup

__all__ = ["KINDS", "RECONCILERS", "setup"]
