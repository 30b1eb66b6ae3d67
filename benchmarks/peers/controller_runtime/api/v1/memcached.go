// Package v1 is the kind Memcached of cache.example.com/v1, as config/crd defines it.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion is what the kinds here belong to.
	GroupVersion = schema.GroupVersion{Group: "cache.example.com", Version: "v1"}

	builder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&Memcached{}, &MemcachedList{})

	// AddToScheme makes the kinds known to clients and caches.
	AddToScheme = builder.AddToScheme
)

// Memcached is a set of memcached servers, run as a Deployment of the same name.
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemcachedSpec   `json:"spec"`
	Status MemcachedStatus `json:"status,omitzero"`
}

// MemcachedSpec says which servers are wanted.
type MemcachedSpec struct {
	// Size is how many.
	Size int32 `json:"size"`
	// Image is their container image; empty for the controller's default.
	Image string `json:"image,omitempty"`
}

// MemcachedStatus tells of the servers as they were last seen. Zeroes and the empty list are written too, as
// the other programs of this benchmark do.
type MemcachedStatus struct {
	// Nodes are the names of the servers' pods that are not terminating, sorted.
	Nodes []string `json:"nodes"`
	// NodeCount is how many of those pods there are.
	NodeCount int32 `json:"nodeCount"`
	// Replicas is how many servers there are, ready or not.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is how many of them take connections.
	ReadyReplicas int32 `json:"readyReplicas"`
	// Selector selects the servers' pods, for autoscalers.
	Selector string `json:"selector,omitempty"`
	// ObservedGeneration is the metadata.generation that this was made for.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Available, Progressing and Degraded.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MemcachedList is what a list request answers.
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Memcached `json:"items"`
}
