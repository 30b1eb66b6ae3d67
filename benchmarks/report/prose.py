"""The text of the page around its figures."""

from __future__ import annotations

INTRODUCTION = """\
# Benchmarks

This page compares this project's Memcached operator with operators that do exactly the same work with other
libraries. The work: a Deployment with an owner reference, the names of its pods from a metadata-only watch,
and one status. The suite measures every program from outside, on a real API server and etcd. The sources of
the other programs are in [`benchmarks/peers/`](../../benchmarks/peers/).

Cells are medians over the rounds, with the smallest and the largest in parentheses if they differ. Compare
figures of one run only, never of different runs or machines. The
[comparison](../comparison.md#what-is-worse-here) lists every figure that is worse than another program's.
"""

AIMS = """\
Unless a line names another program, the aim compares with the best Go program of the same run:
*controller-runtime* is kubebuilder's sample with the library's defaults, *-ryw* has read-your-writes, and
*-onepass* does everything in one pass, as most operators do. All have {concurrency} workers, like ours.
Lines without a verdict are no aims, but comparisons with other settings. *Uncertain*: the machine changed
its speed between the programs, and the verdict depends on that.
"""

ABOUT = {
    "cold": """\
{objects:,} objects exist when the program starts. Objects a second: from the start of the process to the
last status. CPU per object: from the first status until the program is idle again. CPU in all includes the
start. The API server's CPU covers the whole time.
""",
    "latency": """\
New objects are created at a steady rate, whether or not the program keeps up: for {long_seconds:g} s at
50/s and 100/s, and for {seconds:g} s at higher rates. {objects:,} objects, and the objects of the lower
rates, exist already. Latency: from the event of the new object to the event of its status, in one watch
from outside. Waiting at the end: objects without a status after the last creation. Left idle: time of all
processors, from the first new object to the last.
""",
    "memory": """\
Resident memory, a few seconds after the program has become idle. Idle: with one finished object. All five
operators: with the objects of `config/samples/`, and a pet store that is not counted. The Pods have nearly
10 KB of JSON each, exist before the start, and do not change. The program only caches them, as metadata or
whole.
""",
    "others": """\
{others:,} Deployments of some 8 KB belong to other owners, and {among:,} to finished Memcacheds. The
operator works on the latter only. Other programs only cache all Deployments, as metadata or whole. Memory
is read once the program is idle.
""",
    "done": """\
{own:,} Memcacheds with their Deployments exist at the start, and nothing has to change. Idle: the program
has looked at each. CPU: from the start until then. Events count as writes.
""",
    "backlog": """\
The same {own:,} objects. *Start*: until the program has looked at all. *Lists anew*: the API server
restarts and has lost its history; the time includes its own start. *A new version*: `--memcached-image`
names another image, so every Deployment changes; it ends with an empty queue, and Events may follow.
Meanwhile a user changes one object after the other. The loop's lag is the program's own metric, as the
upper bound of a bucket. Server errors are answers with 5xx or 429, except from a server that fills its
caches after a start.
""",
    "steady": """\
{objects:,} finished objects, and no changes. Each round takes {quiet_seconds} s; the figures are per minute
and include requests that reopen a watch.
""",
    "change": """\
One finished object changes, and after its status the next, {changes} times: among {few:,} objects, and
among {many:,}. The cost of one change must not depend on the number of objects. Time: from the request that
changes the object to the event of its status.
""",
    "takeover": """\
Two replicas; one leads (lease of 15 s, renewed within 10 s, every 2 s). The leader gets a signal.
Time: until the first status of the other replica. After a crash, the lease has to expire first.
""",
    "startup": """\
From the start of the process to the first 200 of `/readyz`, and to the first status in a cluster with one
object. CPU: until {settle:g} s after that.
""",
    "ten": """\
Ten controllers on one kind in one process, with {objects:,} objects or more: the watches that the API
server serves for them, and the memory.
""",
}

FAIRNESS = """\
## Fairness

- Every program has the same objects, {concurrency} workers and the same API server with its default
  settings. Each round has its own control plane, and another order of the programs. Parts that measure all
  programs at once (takeover, steady state, ten controllers), or on one control plane (Pods, one change), do
  so for all alike.
- The API server, etcd and the suite share the cores with the program, as on a small machine. That hurts
  programs with much CPU or many requests. If the server has its own cores, CPU counts for less
  ([how](#separate-cores-for-the-api-server)).
- CPU per object excludes the start. That favours Python, whose imports cost more than the start of a Go or
  Rust program. CPU in all includes it.
- Our operator sends Events, the others send none. That favours the others.
- Memory is read seconds after the work. Go returns memory to the system over minutes, so that favours the
  others. The table has the peak too.
- Shared machines change their speed. The suite times a fixed piece of work before and after each figure. Of
  figures that depend on speed, only rounds within 15 % of the program's best count. Other load on the
  machine remains invisible.
- etcd does not sync to disk. With a disk, every program waits longer, and differences are smaller.
- The suite writes objects that only have to exist directly to etcd: the objects of a cold start, the Pods,
  and the finished objects of *one change*. Programs see no difference.
- All programs follow their library's documentation, without tuning. Every program keeps the same
  Deployment, with the same labels, limits and probes, and writes the same status;
  `tests/integration/test_peers.py` compares them.
- {concurrency} workers are our default. controller-runtime's default is 1: *controller-runtime-1* in the
  cold start.
- controller-runtime's cache keeps managedFields by default; *controller-runtime-stripped* drops them. Ours
  always drops the entries of other managers.
"""

REPEAT = """\
## How to repeat it

`KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kubectl, as envtest downloads them. Run
nothing else on the machine.

```sh
make bench   # everything, in about three quarters of an hour, and this page
make bench ARGS="--python=3.11 --python=3.14"   # and ours on these interpreters
make bench ONLY=cold,takeover   # some parts, printed only
make bench ONLY=done,backlog ARGS=--own-objects=200000   # needs 16 GB
.venv/bin/python -m benchmarks --help
```

The first run builds the other programs into `.local/peers/`, which takes some minutes more and needs `go`
and `cargo`. If one cannot be built, the page says so. `{raw}` beside this page has the raw figures;
`.venv/bin/python -m benchmarks --render` makes the page from them.

### Separate cores for the API server

On this page the API server shares all cores with the programs. Two variables, in the notation of `taskset`,
separate them:

```sh
make bench ARGS=--write BENCH_SERVER_CPUS=2-5 BENCH_PROGRAM_CPUS=0,1
```

etcd and the API server then use processors 2 to 5 alone, and the measured program 0 and 1. The suite uses
the rest, or the server's processors if none is left. Without `--write` the figures are only printed; with
it, the page names the processors. Go and Rust start as many threads as they may use processors.

More measurements: [replicas that share the objects](#replicas-that-share-the-objects),
[the live path alone](profiles.md#the-live-path-alone), and [the simulation](../simulation.md#measured).
"""
