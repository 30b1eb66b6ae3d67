from __future__ import annotations

import pytest

from devcluster.storage.selectors import LabelSelector, SelectorError

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}


def test_label_selector_matches_labels_by_match_labels_or_match_expressions():
    assert LabelSelector.of({}).matches(LABELS)
    assert not LabelSelector.of(None).matches(LABELS)
    assert LabelSelector.of({"matchLabels": {"app": "web"}}).matches(LABELS)
    expressions = [
        {"key": "tier", "operator": "In", "values": ["front"]},
        {"key": "x", "operator": "DoesNotExist"},
    ]
    assert LabelSelector.of({"matchExpressions": expressions}).matches(LABELS)
    with pytest.raises(SelectorError):
        LabelSelector.of({"matchExpressions": [{"key": "a", "operator": "Near"}]})
