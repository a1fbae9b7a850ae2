# SPDX-License-Identifier: Apache-2.0
"""Operations that only move elements: reshapes, slices, concatenation, padding, triangles."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exporter.folder import Call
from test_models.case import TestModel, randint, randn

Results = dict[str, Tensor]


def listed(name: str, pieces: list[Tensor] | tuple[Tensor, ...]) -> Results:
    """Numbers the pieces of a split."""
    return {f"{name}_{index}": piece for index, piece in enumerate(pieces)}


def reshapes(x: Tensor) -> Results:
    """Views of x (2, 6, 4, 5) that keep the order of elements or permute it."""
    return {
        "view": x.view(2, 3, 2, 20),
        "view_minus_one": x.view(2, -1),
        "view_as": x.view_as(torch.zeros(12, 20)),
        "reshape": x.reshape(4, 3, -1),
        "reshape_copy": x.transpose(1, 2).reshape(2, 4, 30),
        "reshape_as": x.reshape_as(torch.zeros(48, 5)),
        "flatten": x.flatten(),
        "flatten_some": x.flatten(1, 2),
        "unflatten": x.unflatten(1, (3, -1)),
        "ravel": x.ravel(),
        "permute": x.permute(0, 3, 1, 2),
        "permute_negative": torch.permute(x, (-1, 0, -3, 2)),
        "transpose": x.transpose(1, -1),
        "t": x[0, 0].t(),
        "mT": x.mT,
        "numpy_T": x[0, 0].T,
        "adjoint": x[0].adjoint(),
        "matrix_h": x[0, 0].H,
        "broadcast_tensors": torch.broadcast_tensors(x[:, :1, :, :1], x[:1, :, :1])[0],
        "movedim": torch.movedim(x, 1, -1),
        "movedim_list": torch.movedim(x, (0, 1), (2, 3)),
        "moveaxis": torch.moveaxis(x, 0, 2),
        "swapaxes": torch.swapaxes(x, 0, 1),
        "swapdims": torch.swapdims(x, 2, 3),
        "unsqueeze": x.unsqueeze(-1),
        "unsqueeze_0": x[None, :, None],
        "squeeze": x[:1, :1].squeeze(),
        "squeeze_dim": x[:, :1].squeeze(1),
        "squeeze_dims": x[:1, :1].squeeze((0, 1)),
        "squeeze_kept": x.squeeze(1),
        "expand": x[:, :1].expand(-1, 3, -1, -1),
        "expand_new": x[0, 0].expand(2, 4, 5),
        "expand_as": x[:1].expand_as(x),
        "broadcast_to": torch.broadcast_to(x[0], (3, 6, 4, 5)),
        "atleast": torch.atleast_3d(x[0, 0]),
        "contiguous": x.transpose(0, 1).contiguous(),
        "clone": x.clone(),
        "channels_last": x.to(memory_format=torch.channels_last),
        "detach": x.detach(),
        "alias": torch.ops.aten.alias(x),
        "to_same": x.to(torch.float32),
    }


def slices(x: Tensor) -> Results:
    """Parts of x (2, 6, 4, 5)."""
    return {
        "slice": x[:, 1:4],
        "slice_step": x[:, 1::2],
        "slice_both": x[:, ::3, :, 1:5:2],
        "slice_negative": x[:, -2:],
        "slice_to_negative": x[:, :-1],
        "slice_clamped": x[:, 2:100],
        "slice_empty": x[:, 4:2],
        "ellipsis": x[..., 1],
        "select": x.select(1, 2),
        "select_negative": x[:, -1],
        "select_twice": x[1, :, 3],
        "narrow": x.narrow(1, 2, 3),
        "diagonal": torch.diagonal(x, dim1=2, dim2=3),
        "diagonal_offset": torch.diagonal(x, 1, 2, 3),
        "unfold": x.unfold(1, 3, 2),
        "unfold_number": x[0, 0, 0, 0].unfold(0, 1, 1),
        "unfold_overlap": x.unfold(3, 2, 1),
        "as_strided": torch.as_strided(x, (3, 4), (40, 2), 7),
        "as_strided_overlap": x.as_strided((4, 3), (1, 1)),
        "even_odd": torch.stack([-x[..., 1::2], x[..., :4:2]], -1).flatten(3),
        "take_first": x[0],
        "newaxis_slice": x[:, None, 1:3],
        "cls_token": x.flatten(2)[:, 0:1],
    }


def splits(x: Tensor) -> Results:
    """Operations with several results."""
    return (
        listed("chunk", x.chunk(3, dim=1))
        | listed("chunk_uneven", x.chunk(3, dim=3))
        | listed("chunk_fewer", x.chunk(4, dim=-1)[:1])
        | listed("split", x.split(4, dim=1))
        | listed("split_sizes", x.split([1, 2, 3], dim=1))
        | listed("split_with_sizes", torch.split_with_sizes(x, [3, 2], -1))
        | listed("unbind", x.unbind(0))
        | listed("unbind_last", x.reshape(2, 6, 10, 2).unbind(-1))
        | listed("tensor_split", torch.tensor_split(x, 4, dim=1))
        | listed("tensor_split_at", torch.tensor_split(x, (1, 4), dim=3))
        | listed("hsplit", torch.hsplit(x, 2))
        | {"chunk_unused": x.chunk(6, dim=1)[4], "half_split": torch.cat([-x.chunk(2, 1)[1], x.chunk(2, 1)[0]], 1)}
    )


def joins(x: Tensor, y: Tensor) -> Results:
    """x (2, 6, 4, 5) and y (2, 3, 4, 5) put together, repeated, moved around."""
    meshes = torch.meshgrid(y[0, 0, :, 0], y[0, 0, 0], indexing="ij")
    crossed = torch.meshgrid(y[0, 0, :, 0], y[0, 0, 0], indexing="xy")
    return (
        {
            "cat": torch.cat([x, y], 1),
            "cat_last": torch.cat([x, x[..., :2]], dim=-1),
            "cat_three": torch.cat([y, x, y], 1),
            "cat_empty": torch.cat([x, x[:, :0]], 1),
            "cat_types": torch.cat([x, y.double()], 1),
            "concat": torch.concat([y, y]),
            "stack": torch.stack([y, -y]),
            "stack_last": torch.stack([y, -y], -1),
            "hstack": torch.hstack([x, y]),
            "vstack": torch.vstack([y, y]),
            "dstack": torch.dstack([y, y]),
            "repeat": y.repeat(1, 2, 1, 3),
            "repeat_new": y[0, 0].repeat(2, 1, 1),
            "tile": torch.tile(y, (2, 1)),
            "repeat_interleave": y.repeat_interleave(2, dim=1),
            "repeat_interleave_flat": y[0, 0].repeat_interleave(3),
            "flip": x.flip(1),
            "flip_two": torch.flip(x, (0, -1)),
            "fliplr": torch.fliplr(x),
            "roll": torch.roll(x, 2, 1),
            "roll_two": torch.roll(x, (-1, 7), (1, 3)),
            "roll_flat": torch.roll(x[0, 0], 3),
            "rot90": torch.rot90(x, 1, (2, 3)),
            "cat_split": torch.cat([x, y], 1)[:, 6:],
            "column_stack": torch.column_stack([x[0, 0], y[0, 0]]),
            "block_diag": torch.block_diag(x[0, 0], y[0, 0, :2]),
        }
        | listed("meshgrid_ij", meshes)
        | listed("meshgrid_xy", crossed)
    )


def images(x: Tensor) -> Results:
    """Pixel shuffles, patches and padding of x (2, 6, 4, 5)."""
    image = x[:, :4, :, :4]
    tokens = image.reshape(2, 4, 2, 2, 2, 2)
    return {
        "pixel_shuffle": F.pixel_shuffle(image, 2),
        "pixel_unshuffle": F.pixel_unshuffle(image, 2),
        "channel_shuffle": F.channel_shuffle(x, 3),
        "patchify": tokens.permute(0, 2, 4, 1, 3, 5).flatten(1, 2).flatten(2),
        "unpatchify": torch.einsum("nchpwq->nhwcpq", tokens),
        "pad": F.pad(x, (1, 2)),
        "pad_value": F.pad(x, (0, 1, 2, 0), value=-1.5),
        "pad_front": F.pad(x, (0, 0, 0, 0, 1, 0)),
        "pad_crop": F.pad(x, (-1, 1, -1, -1)),
        "pad_reflect": F.pad(x, (1, 2, 2, 1), mode="reflect"),
        "pad_replicate": F.pad(x, (2, 1, 0, 3), mode="replicate"),
        "pad_circular": F.pad(x, (2, 1, 1, 0), mode="circular"),
        "pad_1d_reflect": F.pad(x[0], (2, 1), mode="reflect"),
        "pad_1d_replicate": F.pad(x[0], (1, 2), mode="replicate"),
        "pad_3d_replicate": F.pad(x, (1, 0, 0, 1, 2, 0), mode="replicate"),
        "pad_bool": F.pad(x > 0, (0, 2), value=True),
        "pad_int": F.pad((x * 4).long(), (1, 0), value=7),
    }


def triangles_and_factories(x: Tensor, labels: Tensor) -> Results:
    """Triangles, one-hot, and tensors made from nothing."""
    return {
        "tril": torch.tril(x),
        "triu": torch.triu(x, 1),
        "tril_negative": torch.tril(x[0, 0], -1),
        "triu_bool": torch.triu(x > 0),
        "one_hot": F.one_hot(labels, 5),
        "diag_embed": torch.diag_embed(x[0, 0]),
        "diag": torch.diag(x[0, 0, 0]),
        "arange": torch.arange(5) + labels[0],
        "arange_step": torch.arange(1.0, 2.0, 0.25) * x[0, 0, 0, 0],
        "linspace": torch.linspace(0, 1, 5) + x[0, 0, 0],
        "zeros": torch.zeros(2, 3) + x[0, 0, 0, 0],
        "ones_like": torch.ones_like(x[0, 0]) * 2,
        "full": torch.full((2, 2), 3.5),
        "full_int": torch.full((3,), 4),
        "full_like": torch.full_like(x[0, 0], float("-inf")),
        "new_zeros": x.new_zeros(3),
        "new_ones": x.new_ones((2, 2), dtype=torch.int32),
        "new_full": x.new_full((2,), 1.25),
        "zeros_like": torch.zeros_like(labels),
        "scalar_tensor": torch.scalar_tensor(2.5) * x[0, 0, 0],
        "eye": torch.eye(3, 4),
        "logspace": torch.logspace(0, 2, 3) + x[0, 0, 0, 0],
        "causal": torch.ones(4, 5, dtype=torch.bool).tril(diagonal=1),
        "cartesian": torch.cartesian_prod(torch.arange(2), torch.arange(3)),
        "empty_fill": torch.empty(3).fill_(2.0),
    }


class Views(nn.Module):
    """No arithmetic, only places."""

    def forward(self, x: Tensor, y: Tensor, labels: Tensor) -> Results:
        return reshapes(x) | slices(x) | splits(x) | joins(x, y) | images(x) | triangles_and_factories(x, labels)


def models() -> list[TestModel]:
    inputs = (randn(2, 6, 4, 5, seed=1), randn(2, 3, 4, 5, seed=2), randint(0, 5, 4, seed=3))
    return [TestModel("ops_views", "reshapes, slices, splits, joins, padding, factories", Views, {"": Call(inputs)})]
