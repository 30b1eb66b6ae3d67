//! What a Memcached asks for: its Deployment, and the status that tells how far it is.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStatus},
        core::v1::{
            Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
            ResourceRequirements, SeccompProfile, SecurityContext, TCPSocketAction,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, LabelSelector, Time},
        util::intstr::IntOrString,
    },
    jiff::{SignedDuration, Timestamp, Unit},
};
use kube::{Resource, ResourceExt, api::ObjectMeta};

use crate::types::{Memcached, MemcachedStatus};

/// The label that ties a pod to its Memcached.
pub const CR_LABEL: &str = "memcached_cr";
const IMAGE: &str = "memcached:1.6.39-alpine";

pub fn labels(memcached: &Memcached) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), "memcached".to_owned()), (CR_LABEL.to_owned(), memcached.name_any())])
}

/// With those by which tools group objects; they select nothing.
fn shown_labels(memcached: &Memcached) -> BTreeMap<String, String> {
    let mut shown = labels(memcached);
    let instance = memcached.name_any();
    for (name, value) in
        [("name", "memcached"), ("instance", instance.as_str()), ("managed-by", "operator-manager")]
    {
        shown.insert(format!("app.kubernetes.io/{name}"), value.to_owned());
    }
    shown
}

fn quantities<const N: usize>(of: [(&str, &str); N]) -> Option<BTreeMap<String, Quantity>> {
    Some(of.map(|(name, value)| (name.to_owned(), Quantity(value.to_owned()))).into())
}

/// Whether a server takes connections, asked so often, in seconds.
fn probe(every: i32) -> Option<Probe> {
    Some(Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String("memcached".to_owned()),
            ..Default::default()
        }),
        timeout_seconds: Some(3),
        period_seconds: Some(every),
        ..Default::default()
    })
}

/// The wanted Deployment: only the fields that are ours. The owner reference is kube's, which does not ask for
/// blockOwnerDeletion.
pub fn deployment(memcached: &Memcached) -> Deployment {
    let (labels, shown) = (labels(memcached), shown_labels(memcached));
    let container = Container {
        name: "memcached".to_owned(),
        image: Some(memcached.spec.image.clone().unwrap_or_else(|| IMAGE.to_owned())),
        command: Some(["memcached", "-m", "64", "-o", "modern", "-v"].map(str::to_owned).to_vec()),
        ports: Some(vec![ContainerPort {
            name: Some("memcached".to_owned()),
            container_port: 11211,
            protocol: Some("TCP".to_owned()),
            ..Default::default()
        }]),
        resources: Some(ResourceRequirements {
            requests: quantities([("cpu", "10m"), ("memory", "96Mi")]),
            limits: quantities([("memory", "128Mi")]),
            ..Default::default()
        }),
        readiness_probe: probe(5),
        liveness_probe: probe(10),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Default::default() }),
            run_as_non_root: Some(true),
            run_as_user: Some(11211),
            ..Default::default()
        }),
        ..Default::default()
    };
    let pod = PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        containers: vec![container],
        ..Default::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(memcached.name_any()),
            namespace: memcached.namespace(),
            labels: Some(shown.clone()),
            owner_references: Some(memcached.controller_owner_ref(&()).into_iter().collect()),
            ..Default::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(memcached.spec.size),
            selector: LabelSelector { match_labels: Some(labels), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(shown), ..Default::default() }),
                spec: Some(pod),
            },
            ..Default::default()
        }),
        status: None,
    }
}

/// Whether `found` has what `wanted` says of size and image.
pub fn agrees(found: &Deployment, wanted: &Deployment) -> bool {
    fn essence(deployment: &Deployment) -> Option<(Option<i32>, Option<&str>)> {
        let spec = deployment.spec.as_ref()?;
        let container = spec.template.spec.as_ref()?.containers.first()?;
        Some((spec.replicas, container.image.as_deref()))
    }
    essence(found) == essence(wanted)
}

/// The status that follows from the Deployment and the names of the pods.
pub fn status(memcached: &Memcached, deployment: &Deployment, mut nodes: Vec<String>) -> MemcachedStatus {
    nodes.sort_unstable();
    let observed = deployment.status.clone().unwrap_or_default();
    let (size, ready) = (memcached.spec.size, observed.ready_replicas.unwrap_or(0));
    let progress = format!("{ready} of {size} replicas are ready");
    let mut conditions =
        memcached.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();

    let mut set = |type_: &str, holds: bool, reason: &str, message: &str| {
        set_condition(&mut conditions, memcached, type_, holds, reason, message);
    };
    if has_condition(&observed, "Available", "True") {
        set("Available", true, "EnoughReady", &progress);
    } else {
        set("Available", false, "NotEnoughReady", &progress);
    }
    if is_rolled_out(deployment, &observed, size) {
        set("Progressing", false, "RolledOut", &progress);
    } else {
        set("Progressing", true, "RollingOut", &progress);
    }
    match failure(&observed) {
        Some((reason, message)) => set("Degraded", true, &reason, &message),
        None => set("Degraded", false, "AsExpected", ""),
    }

    let labels = labels(memcached);
    MemcachedStatus {
        node_count: i32::try_from(nodes.len()).unwrap_or(i32::MAX),
        nodes,
        replicas: observed.replicas.unwrap_or(0),
        ready_replicas: ready,
        selector: labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(","),
        observed_generation: memcached.meta().generation.unwrap_or(0),
        conditions,
    }
}

fn has_condition(status: &DeploymentStatus, type_: &str, value: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|each| each.type_ == type_ && each.status == value)
}

fn is_rolled_out(deployment: &Deployment, status: &DeploymentStatus, size: i32) -> bool {
    let seen = status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0);
    let counts = [status.replicas, status.updated_replicas, status.ready_replicas];
    seen && counts.iter().all(|count| count.unwrap_or(0) == size)
}

fn failure(status: &DeploymentStatus) -> Option<(String, String)> {
    let find = |type_, value| {
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|each| each.type_ == type_ && each.status == value)
    };
    let found = find("ReplicaFailure", "True").or_else(|| find("Progressing", "False"))?;
    let reason = found.reason.clone().filter(|reason| !reason.is_empty());
    Some((reason.unwrap_or_else(|| found.type_.clone()), found.message.clone().unwrap_or_default()))
}

/// Set one condition; its time changes only when its status does.
fn set_condition(
    conditions: &mut Vec<Condition>,
    memcached: &Memcached,
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
) {
    let status = if holds { "True" } else { "False" };
    let before = conditions.iter().position(|each| each.type_ == type_);
    let since = before
        .map(|index| &conditions[index])
        .filter(|each| each.status == status)
        .map_or_else(now, |each| each.last_transition_time.clone());
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: memcached.meta().generation,
        last_transition_time: since,
    };
    match before {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// In whole seconds, as the API server keeps it.
fn now() -> Time {
    let now = Timestamp::now();
    Time(now.round(Unit::Second).unwrap_or(now - SignedDuration::from_nanos(now.subsec_nanosecond().into())))
}
