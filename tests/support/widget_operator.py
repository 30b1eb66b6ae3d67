"""A module as operators have them, for what is generated from it."""

from __future__ import annotations

from manager.rbac import rbac
from tests.support.widget import Widget


@rbac(groups="test.example.com", resources="widgets", verbs="get;list;watch")
@rbac(groups="test.example.com", resources="widgets/status", verbs="patch")
class WidgetReconciler:
    """Does nothing."""


KINDS = (Widget,)
RECONCILERS = (WidgetReconciler,)
