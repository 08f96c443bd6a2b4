"""What encoders of texts have in common: ids of tokens in, with one id behind the end of each text."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from nescio.errors import InputError

_TEXTS_AT_ONCE = 32  # of about the same length, where many are encoded


class TextEncoder(nn.Module):
    """From ids of tokens (N, L), with one id behind the end of each text, to features (N, F).

    Places that are empty in all texts are not computed; where no gradient is wanted, texts of about the same
    length are computed together, so that a short one does not wait for a long one.

    Args:
        vocabulary: How many tokens there are.
        padding: The id that stands behind the end of a text; no text ends in it.
    """

    def __init__(self, vocabulary: int, padding: int = 0) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.padding = padding

    @abstractmethod
    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Features (N, F) of ids (N, L); mask (N, L) is True where there is a token."""

    def forward(self, ids: Tensor) -> Tensor:
        """(N, L) to (N, F)."""
        if torch.compiler.is_compiling():
            # A compiled or exported network computes all places: its shapes can't depend on the values.
            return self.encode(ids, token_mask(ids, self.padding))
        self._require_ids(ids)
        if torch.is_grad_enabled() or len(ids) <= _TEXTS_AT_ONCE:
            return self._encode_trimmed(ids)
        by_length = token_mask(ids, self.padding).sum(1).argsort(stable=True)
        parts = []
        for start in range(0, len(ids), _TEXTS_AT_ONCE):
            chosen = by_length[start : start + _TEXTS_AT_ONCE]
            parts.append(self._encode_trimmed(ids[chosen]))
        in_their_order = by_length.argsort()
        return torch.cat(parts)[in_their_order]

    def _encode_trimmed(self, ids: Tensor) -> Tensor:
        mask = token_mask(ids, self.padding)
        longest = int(mask.sum(1).max()) if len(ids) else 1
        return self.encode(ids[:, :longest], mask[:, :longest])

    def _require_ids(self, ids: Tensor) -> None:
        if ids.ndim != 2 or ids.is_floating_point():
            raise InputError(
                f"a text must come as ids of its tokens, whole numbers (N, L), got {ids.dtype} "
                f"of shape {tuple(ids.shape)}"
            )
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < self.vocabulary:
            raise InputError(
                f"ids of tokens must be from 0 to {self.vocabulary - 1}, got {int(ids.min())} to "
                f"{int(ids.max())}: were they made by the tokenizer of another encoder?"
            )


def token_mask(ids: Tensor, padding: int = 0) -> Tensor:
    """Where there is a token, (N, L): at the first place, and up to the last id that is not the padding."""
    is_token = (ids != padding).long()
    left_to_come = is_token.flip(1).cumsum(1).flip(1)
    is_first = torch.arange(ids.shape[1], device=ids.device) == 0
    return (left_to_come > 0) | is_first


def mean_over_tokens(states: Tensor, mask: Tensor) -> Tensor:
    """The mean of states (N, L, F) over the places of tokens, (N, F)."""
    weights = mask[:, :, None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)
