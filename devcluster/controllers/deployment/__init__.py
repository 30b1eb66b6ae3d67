"""Deployments: a ReplicaSet for each revision of the pod template, and the way from one to the next."""

from __future__ import annotations

from devcluster.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
