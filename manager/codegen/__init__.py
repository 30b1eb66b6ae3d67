"""What is generated from the models and the operators: custom resource definitions and roles."""

from __future__ import annotations

from manager.codegen.config_files import config_files
from manager.codegen.documents import yaml_documents, yaml_stream
from manager.codegen.errors import ModelError
from manager.codegen.manifest import custom_resource_definitions
from manager.codegen.tree import GeneratedTree

__all__ = [
    "GeneratedTree",
    "ModelError",
    "config_files",
    "custom_resource_definitions",
    "yaml_documents",
    "yaml_stream",
]
