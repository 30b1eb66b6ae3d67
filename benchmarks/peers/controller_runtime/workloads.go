package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cachev1 "example.com/memcached/api/v1"
)

// A workload adds its controllers to the manager, and returns the kinds that its cache holds.
type workload func(context.Context, ctrl.Manager) ([]client.Object, error)

var workloads = map[string]workload{
	"memcached":            memcachedWorkload,
	"pods":                 caching(&corev1.Pod{}),
	"pods-metadata":        caching(podMetadata()),
	"deployments":          caching(&appsv1.Deployment{}),
	"deployments-metadata": caching(metadataOf(appsv1.SchemeGroupVersion.WithKind("Deployment"))),
	"ten":                  tenWorkload,
}

func knownWorkloads() string {
	return strings.Join(slices.Sorted(maps.Keys(workloads)), ", ")
}

// One controller: the operator.
func memcachedWorkload(ctx context.Context, mgr ctrl.Manager) ([]client.Object, error) {
	reconciler := &MemcachedReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}
	kinds := []client.Object{&cachev1.Memcached{}, &appsv1.Deployment{}, podMetadata()}
	return kinds, reconciler.SetupWithManager(ctx, mgr)
}

// A cache of all objects of a kind, and nothing else.
func caching(kind client.Object) workload {
	return func(context.Context, ctrl.Manager) ([]client.Object, error) { return []client.Object{kind}, nil }
}

// Ten controllers on one kind, each of which only reads its object.
func tenWorkload(_ context.Context, mgr ctrl.Manager) ([]client.Object, error) {
	read := reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, client.IgnoreNotFound(mgr.GetClient().Get(ctx, req.NamespacedName, &cachev1.Memcached{}))
	})
	for number := range 10 {
		err := ctrl.NewControllerManagedBy(mgr).
			Named(fmt.Sprintf("c%d", number)).
			For(&cachev1.Memcached{}).
			WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
			Complete(read)
		if err != nil {
			return nil, err
		}
	}
	return []client.Object{&cachev1.Memcached{}}, nil
}

// podMetadata names the kind Pod in its projection to metadata.
func podMetadata() *metav1.PartialObjectMetadata {
	return metadataOf(corev1.SchemeGroupVersion.WithKind("Pod"))
}

// metadataOf names a kind in its projection to metadata.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	projection := &metav1.PartialObjectMetadata{}
	projection.SetGroupVersionKind(kind)
	return projection
}
