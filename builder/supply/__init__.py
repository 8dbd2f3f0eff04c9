"""What a wheel is made of, said in the field's own documents: CycloneDX in it, in-toto beside it.

Both are drawn from one list of materials, and both can be read back to be held against it.
"""

from __future__ import annotations

from builder.supply.materials import RECORD_NAME, Material, damaged, materials, read_record, record_in
from builder.supply.pins import asked, bundled, lock_material, pins_of, recipe_materials
from builder.supply.sbom import SBOM_NAME, facts_in, facts_of, sbom
from builder.supply.statement import LOCAL, SUFFIX, Run, Statement, parameters, read_statement, statement

__all__ = [
    "LOCAL",
    "RECORD_NAME",
    "SBOM_NAME",
    "SUFFIX",
    "Material",
    "Run",
    "Statement",
    "asked",
    "bundled",
    "damaged",
    "facts_in",
    "facts_of",
    "lock_material",
    "materials",
    "parameters",
    "pins_of",
    "read_record",
    "read_statement",
    "recipe_materials",
    "record_in",
    "sbom",
    "statement",
]
