"""The section about replicas that share the objects says what was measured, and no more."""

from __future__ import annotations

from benchmarks.report.tables import DASH
from benchmarks.shards.figures import Change, Figures, Use
from benchmarks.shards.page import section, verdicts

MACHINE = {
    "processor": "a processor",
    "cores": "2",
    "memory": "24 GB",
    "system": "Linux",
    "kube-apiserver": "1.36.3",
    "etcd": "3.6.16",
}


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


def figures(*, share: float = 0.34, unowned: float = 0.4, moved: int = 1000) -> Figures:
    """Return figures of a run with three equal replicas, in which `moved` objects change their owner."""
    return Figures(
        date="2026-11-23 14:50",
        minutes=4.2,
        machine=MACHINE,
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
                what="one ends by SIGTERM",
                replicas=2,
                moved=moved,
                expected=1000,
                came=None,
                unowned_s=[0.1, unowned],
                status_s=[1.5, 2.5],
            ),
            Change(
                what="one comes",
                replicas=3,
                moved=moved,
                expected=1000,
                came=use(0.33),
                unowned_s=[],
                status_s=[],
            ),
            Change(
                what="one ends by kill -9",
                replicas=2,
                moved=1000,
                expected=1000,
                came=None,
                unowned_s=[14.0, 16.0],
                status_s=[14.5, 16.5],
            ),
        ],
    )


def reached(found: Figures) -> dict[str, bool]:
    return {aim: good for aim, _, good in verdicts(found)}


def test_verdicts_reach_all_aims_when_each_of_three_replicas_has_a_third():
    assert all(reached(figures()).values())
    assert "not reached" not in section(figures())


def test_verdicts_miss_five_aims_when_one_replica_uses_more_than_its_share():
    missed = [aim for aim, good in reached(figures(share=0.41)).items() if not good]
    assert len(missed) == 5
    assert section(figures(share=0.41)).count("**not reached**") == 5


def test_page_lists_each_replica_with_its_share_and_each_change():
    text = section(figures())
    assert "| 3 | 1,020 | 30.6 (34%) | 6.80 (34%) | 68 (34%) | 3.40 (34%) | 1.70 (34%) |" in text
    assert f"| one ends by kill -9 | 2 | 1,000 | 1,000 | 15 (14{DASH}16) | 15.5 (14.5{DASH}16.5) |" in text
    assert "| to 2 | 990 | 29.7 (33%) | 6.60 (33%) | 66 (33%) |" in text
    assert "3,000 finished Memcacheds in 5 namespaces" in text
