//! Memcached, as its CustomResourceDefinition has it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

// The definition is installed by others, so no schema is derived.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "cache.example.com", version = "v1", kind = "Memcached", plural = "memcacheds")]
#[kube(namespaced, status = "MemcachedStatus", schema = "disabled")]
pub struct MemcachedSpec {
    pub size: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemcachedStatus {
    pub nodes: Vec<String>,
    pub node_count: i32,
    pub replicas: i32,
    pub ready_replicas: i32,
    pub selector: String,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
}
