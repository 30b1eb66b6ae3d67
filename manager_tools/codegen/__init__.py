"""Generation of CustomResourceDefinitions and roles from models and operators, and of models from CRDs."""

from __future__ import annotations

from manager_tools.codegen.config_files import GeneratedTree, config_files
from manager_tools.codegen.definition import DefinitionError, Served, definitions_in, served_by_openapi
from manager_tools.codegen.manifest import custom_resource_definitions
from manager_tools.codegen.model_schema import ModelError
from manager_tools.codegen.model_source import ModelSource, model_source

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
