package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	cachev1 "example.com/memcached/api/v1"
)

const (
	// The label that ties a pod to its Memcached.
	crLabel = "memcached_cr"
	// The index of the pods by that label, so that to list the pods of one costs the same however many there are.
	podsByCR = "metadata.labels.memcached_cr"
)

// MemcachedReconciler brings a Memcached's Deployment to the wanted state, and its status to what is seen.
type MemcachedReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// Reconcile brings one Memcached up to date.
func (r *MemcachedReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var memcached cachev1.Memcached
	if err := r.Get(ctx, req.NamespacedName, &memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !memcached.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // its Deployment is garbage-collected by owner reference
	}

	var deployment appsv1.Deployment
	switch err := r.Get(ctx, req.NamespacedName, &deployment); {
	case apierrors.IsNotFound(err):
		created, err := r.deploymentFor(&memcached)
		if err != nil {
			return ctrl.Result{}, err
		}
		if err := r.Create(ctx, created); err != nil {
			return ctrl.Result{}, err
		}
		if !onePass {
			// As in kubebuilder's sample, the status is left to the next pass, which the Deployment's own event
			// brings.
			return ctrl.Result{}, nil
		}
		// The pass that the event brings may read a Memcached older than this write. With the library's defaults,
		// almost half of the objects met a conflict then, and more CPU went with either setting.
		return ctrl.Result{}, r.report(ctx, &memcached, created)
	case err != nil:
		return ctrl.Result{}, err
	}
	if err := r.correct(ctx, &memcached, &deployment); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, &memcached, &deployment)
}

// correct updates the Deployment if its size or image is not the wanted one.
func (r *MemcachedReconciler) correct(
	ctx context.Context, memcached *cachev1.Memcached, deployment *appsv1.Deployment,
) error {
	if !metav1.IsControlledBy(deployment, memcached) {
		return fmt.Errorf("Deployment %s is not this Memcached's", client.ObjectKeyFromObject(deployment))
	}
	size, image := memcached.Spec.Size, imageOf(memcached)
	container := &deployment.Spec.Template.Spec.Containers[0]
	if *deployment.Spec.Replicas == size && container.Image == image {
		return nil
	}
	deployment.Spec.Replicas = &size
	container.Image = image
	return r.Update(ctx, deployment)
}

// report writes what is seen of the pods and the Deployment to the status, if it differs.
func (r *MemcachedReconciler) report(
	ctx context.Context, memcached *cachev1.Memcached, deployment *appsv1.Deployment,
) error {
	pods := metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err := r.List(ctx, &pods, client.InNamespace(memcached.Namespace), client.MatchingFields{podsByCR: memcached.Name})
	if err != nil {
		return err
	}
	nodes := []string{}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp.IsZero() {
			nodes = append(nodes, pod.Name)
		}
	}
	slices.Sort(nodes)

	before := memcached.Status.DeepCopy()
	observe(memcached, deployment, nodes)
	if equality.Semantic.DeepEqual(before, &memcached.Status) {
		return nil
	}
	return r.Status().Update(ctx, memcached)
}

// SetupWithManager wires the controller up.
func (r *MemcachedReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, podMetadata(), podsByCR, crOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("memcached").
		// Not for what its own status write changes.
		For(&cachev1.Memcached{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&appsv1.Deployment{}).
		Watches(
			&corev1.Pod{},
			handler.EnqueueRequestsFromMapFunc(requestsOf),
			builder.OnlyMetadata,
			builder.WithPredicates(predicate.Or(predicate.LabelChangedPredicate{}, terminating)),
		).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// terminating passes the update by which a pod begins to end.
var terminating = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
}

// crOf is the name of the pod's Memcached, for the index.
func crOf(pod client.Object) []string {
	labels := pod.GetLabels()
	if labels["app"] != "memcached" || labels[crLabel] == "" {
		return nil
	}
	return []string{labels[crLabel]}
}

// requestsOf is the pod's Memcached.
func requestsOf(_ context.Context, pod client.Object) []ctrl.Request {
	name := pod.GetLabels()[crLabel]
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}
