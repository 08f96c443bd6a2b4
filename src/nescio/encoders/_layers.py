"""Layers that several encoders are made of."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that also takes a training batch with a single value for each channel.

    A last batch may hold one picture, and a small picture may have shrunk to one place: no deviation can be
    computed from that. The running statistics are used then, as in evaluation.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, C, H, W) to the same shape."""
        has_one_value = self.training and inputs.numel() == inputs.shape[1]
        if not has_one_value:
            return super().forward(inputs)
        return functional.batch_norm(
            inputs, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=self.eps
        )
