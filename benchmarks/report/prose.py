"""What the page says besides its figures."""

from __future__ import annotations

INTRODUCTION = """\
# Benchmarks

This project's Memcached operator next to programs that do exactly the same work with other libraries: a
Deployment with an owner reference, the names of its pods from a metadata-only watch, and one status. All
are measured from outside, on a real API server and etcd. The peers' sources are in
[`benchmarks/peers/`](../../benchmarks/peers/).

Cells are medians over the rounds, with the smallest and the largest in parentheses. Compare figures of
one run only, not of different runs or machines.
"""

AIMS = """\
Where a line names nothing else, the aim is measured against the better of two settings of
controller-runtime: its defaults, and read-your-writes. Both have {concurrency} workers, as ours. Lines
without a verdict are not aims; they compare with other settings.
"""

ABOUT = {
    "cold": """\
{objects:,} objects exist when the program starts. Objects a second: from the start of the process to the
last status. CPU per object: from the first status until the program is idle again. CPU in all: with the
start. The API server's CPU is its own, over the whole time.
""",
    "latency": """\
New objects are created at a steady rate for {seconds} s, whether or not the program keeps up;
{objects:,} objects and those of the lower rates exist already. Latency is from the event of the new
object to the event of its status, as one watch from outside sees them. Waiting at the end: objects
without a status when the last one was created.
""",
    "memory": """\
Resident memory, a few seconds after the program has become idle. Idle means with one finished object.
The Pods have nearly 10 KB of JSON each, exist before the program starts, and do not change. The program
only caches them, as metadata or whole.
""",
    "steady": """\
{objects:,} finished objects, and no changes. Each round takes {quiet_seconds} s; the figures are for a
minute and include requests that reopen a watch.
""",
    "change": """\
One finished object is changed, and once its status says so, the next, {changes} times: among {few:,}
objects, and among {many:,}. The cost of one change must not depend on their number. Time is from the
request that changes the object to the event of its status.
""",
    "takeover": """\
Two replicas, one of which leads (lease of 15 s, renewed within 10 s, every 2 s). The leader gets a
signal. Time is from there to the first status of the other replica. After a crash, the lease has to
expire first.
""",
    "startup": """\
From the start of the process to the first 200 of `/readyz`, and to the first status in a cluster with
one object. CPU is until {settle:g} s after that.
""",
    "ten": """\
Ten controllers on one kind in one process, with {objects:,} objects or more: how many watches the API
server serves for them, and the memory.
""",
}

FAIRNESS = """\
## Fairness

- Every program has the same objects, {concurrency} workers and the same API server with its default
  settings. Each round has a control plane of its own, on which nothing else runs, and another order of
  the programs. Parts that measure all programs at once (takeover, steady state, ten controllers), or on
  one control plane (Pods, one change), do so for all alike.
- The API server, etcd and the suite share the cores with the program, as on a small machine. That is
  hard on programs that use much CPU or send many requests. Where the server has cores of its own, CPU
  counts for less and requests still count.
- CPU per object leaves the start out. That favours Python, whose imports cost more than the start of a
  Go or Rust program. CPU in all includes it.
- Our operator sends Events, and the peers send none. That favours the peers.
- Memory is read seconds after the work. Go returns memory to the system over minutes, so that favours
  the others. The peak is in the table too.
- etcd does not sync to disk. With a disk, everybody waits longer, and differences are smaller.
- Objects that only have to exist (those of a cold start, the Pods, the finished ones of *one change*)
  are written directly to etcd. A program sees no difference.
- The peers are written as their libraries' documentation says, without tuning. So is ours.
- {concurrency} workers are our default. controller-runtime's default is 1: it is measured with
  {concurrency}, and with 1 in the cold start only (*controller-runtime-1*).
- controller-runtime's cache keeps managedFields unless told otherwise; *controller-runtime-stripped*
  strips them. Ours always drops the entries of other managers.
"""

REPEAT = """\
## How to repeat it

`KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kubectl, as envtest has them. Nothing
else should run on the machine.

```sh
make bench   # everything, in under twenty minutes, and this page
make bench ONLY=cold,takeover   # some parts, printed only
.venv/bin/python -m benchmarks --help
```

The API server shares all cores with the programs. To give it and etcd cores of their own, make a folder
with a script for each of etcd, kube-apiserver and kubectl:

```text
#!/bin/sh
exec taskset --cpu-list 2,3 /path/to/assets/etcd "$@"
```

Then let `KUBEBUILDER_ASSETS` name that folder, and start the suite with `taskset --cpu-list 0,1`.

The first run builds the peers into `.local/peers/`, which takes some minutes more and needs `go` and
`cargo`. A peer that cannot be built is left out, and the page says so. The raw figures are in `{raw}`
beside this page; `.venv/bin/python -m benchmarks --render` makes the page from them.

What replicas with `--shards` each use: [replicas that share the objects](shards.md). The cost of single parts
of the runtime, without a control plane: [microbenchmarks](micro.md). Seeds a minute, and virtual hours a
second, of the simulation: [simulation](../simulation.md#measured).
"""
