package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"

	cachev1 "example.com/memcached/api/v1"
)

// What a Memcached of the spec {size} wants, and what its status says: the same as controllers/cache/memcached.py.

const defaultImage = "memcached:1.6.39-alpine"

func imageOf(memcached *cachev1.Memcached) string {
	if memcached.Spec.Image != "" {
		return memcached.Spec.Image
	}
	return defaultImage
}

func labelsOf(memcached *cachev1.Memcached) map[string]string {
	return map[string]string{"app": "memcached", crLabel: memcached.Name}
}

// shownLabelsOf adds those by which tools group objects; they select nothing.
func shownLabelsOf(memcached *cachev1.Memcached) map[string]string {
	shown := labelsOf(memcached)
	shown["app.kubernetes.io/name"] = "memcached"
	shown["app.kubernetes.io/instance"] = memcached.Name
	shown["app.kubernetes.io/managed-by"] = "operator-manager"
	return shown
}

// probeEvery asks a server so often, in seconds, whether it takes connections.
func probeEvery(seconds int32) *corev1.Probe {
	port := &corev1.TCPSocketAction{Port: intstr.FromString("memcached")}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{TCPSocket: port}, TimeoutSeconds: 3, PeriodSeconds: seconds,
	}
}

// deploymentFor is the wanted Deployment.
func (r *MemcachedReconciler) deploymentFor(memcached *cachev1.Memcached) (*appsv1.Deployment, error) {
	labels, shown := labelsOf(memcached), shownLabelsOf(memcached)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: memcached.Name, Namespace: memcached.Namespace, Labels: shown},
		Spec: appsv1.DeploymentSpec{
			Replicas: &memcached.Spec.Size,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: shown},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(false),
					EnableServiceLinks:           new(false),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   new(true),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name:    "memcached",
						Image:   imageOf(memcached),
						Command: []string{"memcached", "-m", "64", "-o", "modern", "-v"},
						Ports: []corev1.ContainerPort{{
							Name: "memcached", ContainerPort: 11211, Protocol: corev1.ProtocolTCP,
						}},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{
								corev1.ResourceCPU:    resource.MustParse("10m"),
								corev1.ResourceMemory: resource.MustParse("96Mi"),
							},
							Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
						},
						ReadinessProbe: probeEvery(5),
						LivenessProbe:  probeEvery(10),
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: new(false),
							Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
							RunAsNonRoot:             new(true),
							RunAsUser:                new(int64(11211)),
						},
					}},
				},
			},
		},
	}
	return deployment, ctrl.SetControllerReference(memcached, deployment, r.Scheme)
}

// observe puts what is seen into the status.
func observe(memcached *cachev1.Memcached, deployment *appsv1.Deployment, nodes []string) {
	status := &memcached.Status
	status.Nodes = nodes
	status.NodeCount = int32(len(nodes))
	status.Replicas = deployment.Status.Replicas
	status.ReadyReplicas = deployment.Status.ReadyReplicas
	status.Selector = labels.Set(labelsOf(memcached)).String()
	status.ObservedGeneration = memcached.Generation

	size := memcached.Spec.Size
	progress := fmt.Sprintf("%d of %d replicas are ready", status.ReadyReplicas, size)
	available := metav1.Condition{
		Type: "Available", Status: metav1.ConditionFalse, Reason: "NotEnoughReady", Message: progress,
	}
	if theirs := conditionOf(deployment, appsv1.DeploymentAvailable); theirs.Status == corev1.ConditionTrue {
		available.Status, available.Reason = metav1.ConditionTrue, "EnoughReady"
	}
	progressing := metav1.Condition{
		Type: "Progressing", Status: metav1.ConditionTrue, Reason: "RollingOut", Message: progress,
	}
	if isRolledOut(deployment, size) {
		progressing.Status, progressing.Reason = metav1.ConditionFalse, "RolledOut"
	}
	degraded := metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Reason: "AsExpected"}
	if refused := conditionOf(deployment, appsv1.DeploymentReplicaFailure); refused.Status == corev1.ConditionTrue {
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, refused.Reason, refused.Message
	} else if stuck := conditionOf(deployment, appsv1.DeploymentProgressing); stuck.Status == corev1.ConditionFalse {
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, stuck.Reason, stuck.Message
	}
	for _, condition := range []metav1.Condition{available, progressing, degraded} {
		condition.ObservedGeneration = memcached.Generation
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// conditionOf is the Deployment's condition of that type, or an empty one.
func conditionOf(deployment *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return appsv1.DeploymentCondition{}
}

// isRolledOut tells whether all replicas are of the latest spec, ready, and as many as wanted.
func isRolledOut(deployment *appsv1.Deployment, size int32) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation &&
		status.Replicas == size && status.UpdatedReplicas == size && status.ReadyReplicas == size
}
