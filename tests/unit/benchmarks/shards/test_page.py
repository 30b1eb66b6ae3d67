"""The section about replicas that share the objects says what was measured, and no more."""

from __future__ import annotations

from benchmarks.report.tables import DASH
from benchmarks.shards.figures import Change, Figures, Use
from benchmarks.shards.page import section


def use(share: float) -> Use:
    """Return the use of a replica with this share of everything."""
    return Use(
        objects=round(3000 * share),
        start_mb=90 * share,
        start_cpu_s=20 * share,
        memory_mb=200 * share,
        load_mb=10 * share,
        load_cpu_s=5 * share,
    )


def figures(share: float = 0.34) -> Figures:
    """Return figures of a run with three replicas; one replica uses `share` of everything."""
    changes = [
        ("one ends by SIGTERM", 2, None, [0.1, 0.4], [1.5, 2.5]),
        ("one comes", 3, use(0.33), [], []),
        ("one ends by kill -9", 2, None, [14.0, 16.0], [14.5, 16.5]),
    ]
    return Figures(
        date="2026-11-23 14:50",
        minutes=4.2,
        machine=dict.fromkeys(("processor", "cores", "memory", "system", "kube-apiserver", "etcd"), "any"),
        version="operator-manager 0.1.0",
        others=0.1,
        objects=3000,
        namespaces=5,
        shards=16,
        idle_mb=60.0,
        load=300,
        uses={"1": [use(1)], "2": [use(0.5), use(0.5)], "3": [use(0.3), use(share), use(0.33)]},
        changes=[
            Change(
                what=what,
                replicas=replicas,
                moved=1000,
                expected=1000,
                came=came,
                unowned_s=unowned,
                status_s=status,
            )
            for what, replicas, came, unowned, status in changes
        ],
    )


def test_shards_section_lists_replicas_changes_and_missed_aims():
    text = section(figures())
    assert "not reached" not in text
    assert "| 3 | 1,020 | 30.6 (34%) | 6.80 (34%) | 68 (34%) | 3.40 (34%) | 1.70 (34%) |" in text
    assert f"| one ends by kill -9 | 2 | 1,000 | 1,000 | 15 (14{DASH}16) | 15.5 (14.5{DASH}16.5) |" in text
    assert "| to 2 | 990 | 29.7 (33%) | 6.60 (33%) | 66 (33%) |" in text
    assert section(figures(share=0.41)).count("**not reached**") == 5
