"""What is generated from the models and the operators, definitions and roles; and models from definitions."""

from __future__ import annotations

from manager.codegen.config_files import config_files
from manager.codegen.definition import DefinitionError, Served, definitions_in, served_by_openapi
from manager.codegen.manifest import custom_resource_definitions
from manager.codegen.model_schema import ModelError
from manager.codegen.model_source import ModelSource, model_source
from manager.codegen.tree import GeneratedTree

__all__ = [
    "DefinitionError",
    "GeneratedTree",
    "ModelError",
    "ModelSource",
    "Served",
    "config_files",
    "custom_resource_definitions",
    "definitions_in",
    "model_source",
    "served_by_openapi",
]
