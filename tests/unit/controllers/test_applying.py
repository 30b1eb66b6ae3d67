from __future__ import annotations

from controllers.applying import overlaid


def test_our_lists_replace_theirs_and_maps_are_merged():
    live = {
        "type": "NodePort",
        "clusterIP": "10.0.0.1",
        "ports": [{"name": "http", "port": 8080}],
        "selector": {"app": "wrong", "extra": "kept"},
    }
    wanted = {"ports": [{"name": "http", "port": 80}], "selector": {"app": "a"}}
    assert overlaid(live, wanted) == {
        "type": "NodePort",
        "clusterIP": "10.0.0.1",
        "ports": [{"name": "http", "port": 80}],
        "selector": {"app": "a", "extra": "kept"},
    }
    assert live["selector"] == {"app": "wrong", "extra": "kept"}
