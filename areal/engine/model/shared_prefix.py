"""Sequences of a packed batch that begin alike, of which the beginnings are computed once.

What a causal model makes of a token depends on it and on those before it, so the samples of one
prompt share everything up to where they part; and a token behind the last one that carries loss is
needed by nobody. Only attention sees whole sequences.

Shape letters: B sequences, L tokens of the longest, T tokens of all, U distinct tokens, C tokens of
the largest tree, N positions whose logits are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# A batch is left as it is unless this share of its tokens need not be computed.
MIN_SAVED = 0.05
# A sequence that has less than this share of its tokens from the one before begins a tree.
MIN_SHARED = 0.25
# Trees up to this many tokens are attended to as they are, each token seeing or not seeing each
# other one; of larger ones, attention copies the tokens to the sequences that they are in.
LARGEST_TREE = 128


@dataclass(frozen=True)
class DistinctTokens:
    """The tokens of a packed batch, each once.

    Args:
        tokens_U: Ids.
        positions_U: Of each token in its sequences.
        lengths: Tokens of each sequence up to its last logits, or of each tree of sequences.
        keep_N: Where the tokens whose logits are wanted are, in their order; some more than once.
        places: Where each token of the sequences, one after the other, is among the distinct; None
            with trees.
        distances_UC: How far each token of a tree is before the token, in a sequence of both,
            or -1; None without trees.
    """

    tokens_U: Tensor
    positions_U: Tensor
    lengths: list[int]
    keep_N: Tensor
    places: Tensor | None = None
    distances_UC: Tensor | None = None


def distinct_tokens(
    tokens_T: Tensor, lengths: Sequence[int], keep_N: Tensor
) -> DistinctTokens | None:
    """Return the tokens of a batch that have to be computed; None where those are nearly all.

    A sequence shares what it has in common with the one before it: samples of a prompt are side
    by side.

    Args:
        tokens_T: Ids of a packed batch.
        lengths: Tokens of each sequence, in packed order; all positive.
        keep_N: Indices of the tokens whose logits are wanted, ascending; at least one.
    """
    device = tokens_T.device
    end_B = torch.tensor(lengths, device=device).cumsum(0)
    row_N = torch.bucketize(keep_N, end_B, right=True)
    start_B = end_B - torch.tensor(lengths, device=device)
    column_N = keep_N - start_B[row_N]
    size_B1 = torch.zeros_like(end_B).scatter_reduce_(0, row_N, column_N + 1, "amax")[:, None]
    column_L = torch.arange(int(size_B1.max()), device=device)
    is_token_BL = column_L < size_B1
    ids_BL = tokens_T[(start_B[:, None] + column_L).clamp_(max=len(tokens_T) - 1)]
    is_same_BL = torch.zeros_like(is_token_BL)
    is_same_BL[1:] = (ids_BL[1:] == ids_BL[:-1]) & is_token_BL[1:] & is_token_BL[:-1]
    is_shared_BL = is_same_BL.long().cumprod(1).bool()
    is_root_B1 = is_shared_BL.sum(1, keepdim=True) < MIN_SHARED * size_B1
    is_own_BL = is_token_BL & (~is_shared_BL | is_root_B1)
    number_BL = is_own_BL.flatten().cumsum(0).view(is_own_BL.shape) - 1
    if int(number_BL[-1, -1]) + 1 > (1 - MIN_SAVED) * len(tokens_T):
        return None
    # That of this sequence, or of the last one above to which the token is its own.
    row_B1 = torch.arange(len(lengths), device=device)[:, None]
    owner_BL = torch.where(is_own_BL, row_B1, 0).cummax(0).values
    place_BL = number_BL.gather(0, owner_BL)
    tokens_U, positions_U = ids_BL[is_own_BL], column_L.expand_as(is_own_BL)[is_own_BL]
    tree_B = (is_root_B1[:, 0] & is_token_BL[:, 0]).cumsum(0) - 1
    tree_U = tree_B[:, None].expand_as(is_own_BL)[is_own_BL]
    sizes = torch.bincount(tree_U)
    keep_N = place_BL[row_N, column_N]
    largest = int(sizes.max())
    if largest > LARGEST_TREE:
        needed = [size for size in size_B1[:, 0].tolist() if size]
        places = place_BL[is_token_BL]
        return DistinctTokens(tokens_U, positions_U, needed, keep_N, places=places)
    # What a token sees is in its row of places, up to its column.
    row_U = row_B1.expand_as(is_own_BL)[is_own_BL]
    first_U = (sizes.cumsum(0) - sizes)[tree_U]
    distance_UL = positions_U[:, None] - column_L
    seen_UL = place_BL[row_U] - first_U[:, None]
    # What is there after its column is sent to another one, which is dropped.
    seen_UL = torch.where(distance_UL < 0, largest, seen_UL)
    distances_UC = torch.full((len(tokens_U), largest + 1), -1, device=device)
    distances_UC.scatter_(1, seen_UL, distance_UL)
    distances_UC = distances_UC[:, :largest]
    return DistinctTokens(tokens_U, positions_U, sizes.tolist(), keep_N, distances_UC=distances_UC)
