"""What the page says besides its figures."""

from __future__ import annotations

INTRODUCTION = """\
# Benchmarks

This project's Memcached operator next to programs that do exactly the same work with other libraries: a
Deployment with an owner reference, the names of its pods from a metadata-only watch, and one status. All
are measured from outside, on a real API server and etcd. The peers' sources are in
[`benchmarks/peers/`](../../benchmarks/peers/).

Cells are medians over the rounds, with the smallest and the largest in parentheses; where they are missing,
all rounds have the same, or only one counts. Compare figures of one run only, not of different runs or
machines.
"""

AIMS = """\
Where a line names nothing else, the aim is measured against the best that Go does in the same run:
kubebuilder's sample with the library's defaults (*controller-runtime*), the same with read-your-writes
(*-ryw*), and one that does everything in one pass, as most operators in the wild (*-onepass*). All have
{concurrency} workers, as ours. Lines without a verdict are not aims; they compare with other settings.
*Uncertain*: the machine changed its speed between the programs, as the same piece of work before and after
each figure shows, and the verdict would be another one at one pace.
"""

ABOUT = {
    "cold": """\
{objects:,} objects exist when the program starts. Objects a second: from the start of the process to the
last status. CPU per object: from the first status until the program is idle again. CPU in all: with the
start. The API server's CPU is its own, over the whole time.
""",
    "latency": """\
New objects are created at a steady rate, whether or not the program keeps up: for {long_seconds:g} s at 50/s
and 100/s, and for {seconds:g} s at higher rates. {objects:,} objects and those of the lower
rates exist already. Latency is from the event of the new object to the event of its status, as one watch
from outside sees them. Waiting at the end: objects without a status when the last one was created. Left
idle: of all processors of the machine, from the first new object to the last.
""",
    "memory": """\
Resident memory, a few seconds after the program has become idle. Idle means with one finished object; all
five operators have those of `config/samples/`, and a pet store, whose process is not counted.
The Pods have nearly 10 KB of JSON each, exist before the program starts, and do not change. The program
only caches them, as metadata or whole.
""",
    "others": """\
{others:,} Deployments of some 8 KB belong to somebody else, and {among:,} are those of finished Memcacheds.
The operator has only those to look after. Next to it are programs that only cache all these Deployments, as
metadata or whole. Memory is read once the program is idle.
""",
    "done": """\
{own:,} Memcacheds with their Deployments exist when the program starts, and all are as they should be. Idle
means that the program has looked at each. CPU is from the start until then. Events count as writes.
""",
    "backlog": """\
The same {own:,} objects. *Start*: until all have been looked at. *Lists anew*: the API server starts again,
and has forgotten what was before; the time includes its own start. *A new version*: `--memcached-image`
names another image, so each Deployment is changed; it ends when nothing is queued, and Events may follow.
Meanwhile one object after the other is changed by hand; the first as soon as the program is ready, or the
API server back. The loop's lag is the program's own metric, as the upper bound of a bucket. Server errors
are answers with 5xx or 429; those of a server that has just started and not yet filled its caches do not
count.
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

IMPORTED = """\
What the modules of each package take to import, without what they import themselves, as `-X importtime`
measures it in one more start. Measuring makes each import slower:
"""

FAIRNESS = """\
## Fairness

- Every program has the same objects, {concurrency} workers and the same API server with its default
  settings. Each round has a control plane of its own, on which nothing else runs, and another order of the
  programs. Parts that measure all programs at once (takeover, steady state, ten controllers), or on one
  control plane (Pods, one change), do so for all alike.
- The API server, etcd and the suite share the cores with the program, as on a small machine. That is
  hard on programs that use much CPU or send many requests. Where the server has cores of its own, CPU
  counts for less and requests still count ([how](#cores-of-its-own-for-the-api-server)).
- CPU per object leaves the start out. That favours Python, whose imports cost more than the start of a
  Go or Rust program. CPU in all includes it.
- Our operator sends Events, and the peers send none. That favours the peers.
- Memory is read seconds after the work. Go returns memory to the system over minutes, so that favours
  the others. The peak is in the table too.
- Machines change their speed, shared ones most. A fixed piece of work is timed before and after each figure.
  Of figures that speed changes, only the rounds count in which that was within 15 % of the program's best. It
  does not show what others take of the processors' time: nothing else should run.
- etcd does not sync to disk. With a disk, everybody waits longer, and differences are smaller.
- Objects that only have to exist (those of a cold start, the Pods, the finished ones of *one change*)
  are written directly to etcd. A program sees no difference.
- The peers are written as their libraries' documentation says, without tuning. So is ours.
- Every program keeps the same Deployment, with the same labels, limits and probes, and writes the same
  status; `tests/integration/test_peers.py` compares them.
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
make bench   # everything, in about three quarters of an hour, and this page
make bench ARGS="--python=3.11 --python=3.14"   # and ours on these interpreters
make bench ONLY=cold,takeover   # some parts, printed only
make bench ONLY=done,backlog ARGS=--own-objects=200000   # needs 16 GB
.venv/bin/python -m benchmarks --help
```

### Cores of its own for the API server

On this page the API server shares all cores with the programs. Two variables give each side its own, with
`taskset`, whose notation they have:

```sh
make bench ARGS=--write BENCH_SERVER_CPUS=2-5 BENCH_PROGRAM_CPUS=0,1
```

etcd and the API server then use processors 2 to 5 alone, and the measured program 0 and 1. What creates the
objects and looks at them goes where neither is (6 and up), or to the server's processors if none is left.
Without `--write` the figures are printed and the page stays as it is; with it, the page says which processors
they were. Go and Rust make as many threads as they may use processors.

The first run builds the peers into `.local/peers/`, which takes some minutes more and needs `go` and
`cargo`. A peer that cannot be built is left out, and the page says so. The raw figures are in `{raw}`
beside this page; `.venv/bin/python -m benchmarks --render` makes the page from them.

What replicas with `--shards` each use: [replicas that share the objects](shards.md). The cost of single parts
of the runtime, without a control plane: [microbenchmarks](micro.md). Seeds a minute, and virtual hours a
second, of the simulation: [simulation](../simulation.md#measured).
"""
