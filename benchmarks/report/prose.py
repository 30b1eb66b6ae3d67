"""What the page says besides its figures."""

from __future__ import annotations

INTRODUCTION = """\
# Benchmarks

Operators that do the same work, written with different libraries and measured from outside, side by side on
a real API server and etcd: this project's Memcached operator, and peers that do exactly what it does: a
Deployment with an owner reference, the names of its pods from a metadata-only watch, one status. Their
sources are in [`benchmarks/peers/`](../../benchmarks/peers/).

Cells are medians over the rounds, in parentheses the smallest and the largest. Figures of one run compare
with each other; those of other runs or machines do not.
"""

AIMS = """\
Against the better of controller-runtime's two settings, its defaults and read-your-writes on, both with
{concurrency} workers as ours has. Lines without a verdict are no aims: they say how we compare with
controller-runtime otherwise set.
"""

ABOUT = {
    "cold": """\
{objects:,} objects wait when the program starts. Objects a second count from the start of the process to
the last status. CPU per object counts from the first status until the program has come to rest after the
last; the CPU in all has the start too. The API server's CPU is its own, over the whole time.
""",
    "latency": """\
New objects come at a steady rate for {seconds} s, whether or not the program keeps up, while {objects:,}
and those of the lower rates are there. Latency is from the event of the new object to that of its status,
both as one watch from outside sees them. A program that falls behind shows by what still waited when the
last object was created.
""",
    "memory": """\
Resident memory, a few seconds after the program has come to rest. Idle is with one object that is done.
The Pods have close to 10 KB each as JSON, are there before the program starts, and nobody changes them; the
program has a cache of them and nothing else, for their metadata or whole.
""",
    "steady": """\
{objects:,} finished objects, and nothing happens. Each round watches for {quiet_seconds} s; the figures are
for a minute. Requests to open a watch again are counted with the rest.
""",
    "change": """\
One finished object is changed, and once its status says so, the next, {changes} times: among {few:,}
objects, and among {many:,}. What one change costs must not depend on their number. Time is from the request
that changes the object to the event of its status.
""",
    "takeover": """\
Two replicas, of which one leads (lease of 15 s, renewed within 10 s, every 2 s). The leader is sent a
signal; time is from there to a status that only the other can have written. A crashed leader's lease has to
expire.
""",
    "startup": """\
From the start of the process to the first 200 of `/readyz`, and to the first status in a cluster with one
object. CPU is until {settle:g} s after.
""",
    "ten": """\
Ten controllers on one kind in one process, with {objects:,} objects or more: how many watches the API
server serves for them, and the memory.
""",
}

FAIRNESS = """\
## What favours whom

- Every program has the same objects, {concurrency} workers, the same API server with its default settings,
  and in each round a control plane of its own, where nothing but the program and the suite is. The order of
  the programs changes with each round. What is measured all at once (takeover, steady state, ten
  controllers), or on one control plane (Pods, one change), is so for all alike.
- The API server, etcd and the suite share the cores with the program. That is hard on whoever uses much CPU
  and on whoever asks much of the API server, as on a small machine; where these have cores of their own,
  the differences in objects a second are smaller for the first, and stay for the second.
- CPU per object leaves the start out, which favours Python: its imports cost more than a Go or Rust
  program's start. The CPU in all has it.
- Our operator sends Events, as its users expect; the peers send none. That favours the peers.
- Memory is read seconds after the work. Go gives memory back to the system over minutes, so that favours
  whoever gives it back at once, or never had it; the peak is there too.
- etcd does not sync to disk. With a disk in the way, everybody waits more, and is closer together.
- Objects that only have to be there (those of a cold start, the Pods, the finished ones of *one change*)
  are written straight into etcd. A program sees no difference.
- The peers are written as their libraries' documentation says, without tuning; so is ours.
- {concurrency} workers are this project's default. controller-runtime's is 1, which whoever needs more sets:
  it is measured with {concurrency}, and with its 1 in the cold start only, as *controller-runtime-1*.
- controller-runtime's cache keeps managedFields unless it is told to strip them. Ours leaves out what other
  managers' entries say, and needs no telling. With stripping theirs is *controller-runtime-stripped*.
"""

REPEAT = """\
## How to repeat it

`KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kubectl, as envtest has them.
The machine should have nothing else to do.

```sh
make bench   # everything, in under twenty minutes, and this page
make bench ONLY=cold,takeover   # some parts, printed only
.venv/bin/python -m benchmarks --help
```

Peers are built into `.local/peers/` the first time, which takes minutes more; `go` and `cargo` have to be
there for those that are written in Go and Rust. One that cannot be built is left out, and the page says so.
The raw figures are in `{raw}` beside this page; `.venv/bin/python -m benchmarks --render`
makes it of them again.
What single parts of the runtime cost, without a control plane: [microbenchmarks](micro.md).
"""
