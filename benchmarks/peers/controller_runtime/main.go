// The Memcached operator on controller-runtime, and the other workloads that the benchmarks compare.
//
// It is written as kubebuilder's samples are, with the library's defaults. What those are in this release:
//   - no client-side rate limit (QPS -1): the API server's priority and fairness is relied on;
//   - protobuf for built-in kinds (Deployments, the pods' metadata), JSON for custom resources;
//   - the initial list is streamed where the server can; bookmarks are on; one HTTP/2 connection;
//   - the priority queue: what the initial list brings comes after what happens live;
//   - one worker per controller, and reads by the cached client may be older than the program's own writes.
//
// What was chosen instead, in its favour: as many workers as the other programs have; the log only takes
// warnings, and metrics are not served, as with the other programs; caches are warm before a standby is elected,
// and the lease is released on a clean stop, so that a takeover is quick; an index for the pods of one Memcached;
// and its own status writes do not call the reconciler again, as with ours.
// Choices that change what is compared have a flag: --read-your-writes, --strip-managed-fields, --one-pass.
package main

import (
	"flag"
	"fmt"
	"os"

	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cachev1 "example.com/memcached/api/v1"
)

// Exit code for a wrong flag, or a workload that is not known.
const usageError = 2

var (
	scheme      = runtime.NewScheme()
	concurrency int
	onePass     bool
)

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(cachev1.AddToScheme(scheme))
}

func main() {
	var options ctrl.Options
	var workload string
	var readYourWrites, stripManagedFields bool
	// --kubeconfig comes with controller-runtime.
	flag.IntVar(&concurrency, "concurrency", 8, "objects worked on at a time, by each controller")
	flag.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", ":8081", "where /readyz is served")
	flag.StringVar(&workload, "workload", "memcached", knownWorkloads())
	flag.BoolVar(&options.LeaderElection, "leader-elect", false, "work only while holding the lease")
	flag.StringVar(&options.LeaderElectionID, "leader-election-id", "memcached.example.com", "name of the lease")
	flag.StringVar(&options.LeaderElectionNamespace, "leader-election-namespace", "default", "where the lease is")
	flag.BoolVar(&readYourWrites, "read-your-writes", false, "cached reads wait for the program's own writes")
	flag.BoolVar(&stripManagedFields, "strip-managed-fields", false, "keep no managedFields in the cache")
	flag.BoolVar(&onePass, "one-pass", false, "write the status right after the create, as most operators do")
	flag.Parse()

	setUp, ok := workloads[workload]
	if !ok {
		fmt.Fprintf(os.Stderr, "controller-runtime: no workload %q; there are %s\n", workload, knownWorkloads())
		os.Exit(usageError)
	}
	ctrl.SetLogger(zap.New(zap.Level(zapcore.WarnLevel)))

	options.Scheme = scheme
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	// The lease's 15 s, 10 s and 2 s are the defaults.
	options.LeaderElectionReleaseOnCancel = true
	options.Controller = config.Controller{EnableWarmup: new(true)}
	if readYourWrites {
		options.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}
	}
	if stripManagedFields {
		options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}
	if err := run(options, setUp); err != nil {
		fmt.Fprintln(os.Stderr, "controller-runtime:", err)
		os.Exit(1)
	}
}

// run runs the workload until a signal ends it.
func run(options ctrl.Options, setUp workload) error {
	// What --kubeconfig names, else KUBECONFIG, else the cluster that this runs in.
	kubeconfig, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(kubeconfig, options)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	kinds, err := setUp(ctx, mgr)
	if err != nil {
		return err
	}
	if err := readyOnceSynced(mgr, kinds); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
