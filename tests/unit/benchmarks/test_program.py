"""Start of a program under measurement."""

from __future__ import annotations

from pathlib import Path

from benchmarks.program import Election, Program, Setting, by_contract

FILE = Path("/tmp/kubeconfig")


def test_placeholders_are_filled_from_the_setting():
    program = Program.parse("mine=/bin/mine --file={kubeconfig} -n {concurrency} --probe={health} {workload}")
    setting = Setting(workload="ten", concurrency=3, health_address="127.0.0.1:9")
    assert program.arguments(FILE, setting) == [
        *("/bin/mine", "--file=/tmp/kubeconfig", "-n", "3", "--probe=127.0.0.1:9", "ten")
    ]


def test_by_contract_program_gets_the_flags_of_all_peers():
    program = by_contract("peer", "/bin/peer", "--read-your-writes")
    election = Election("lease", "team")
    assert program.arguments(FILE, Setting(election=election)) == [
        *("/bin/peer", "--read-your-writes", "--kubeconfig=/tmp/kubeconfig", "--concurrency=8"),
        *("--health-probe-bind-address=0", "--workload=memcached"),
        *("--leader-elect", "--leader-election-id=lease", "--leader-election-namespace=team"),
    ]
