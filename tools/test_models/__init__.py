# SPDX-License-Identifier: Apache-2.0
"""The project's own small models, grouped by theme. Each module has `models() -> list[TestModel]`.

A module that tests operations returns a dict with one entry per operation, so that a failing comparison
names the operation.
"""

from test_models import (
    attention,
    complexes,
    convolutions,
    distributions,
    heads,
    indexing,
    inplace,
    linear,
    matmuls,
    norms,
    pointwise,
    product_parts,
    reductions,
    refused,
    rotary,
    rows,
    sampling,
    spelled,
    structure,
    token_masks,
    transformers,
    views,
)

GROUPS = [
    transformers.models,
    pointwise.models,
    reductions.models,
    distributions.models,
    views.models,
    indexing.models,
    norms.models,
    spelled.models,
    convolutions.models,
    sampling.models,
    matmuls.models,
    product_parts.models,
    attention.models,
    token_masks.models,
    heads.models,
    rotary.models,
    rows.models,
    linear.models,
    complexes.models,
    inplace.models,
    structure.models,
    refused.models,
]
