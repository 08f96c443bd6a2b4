"""MiniLM: a small transformer for texts, with the weights of all-MiniLM-L6-v2 (Wang et al. 2020).

The network is BERT's encoder (Devlin et al. 2019); its features are sentence vectors, as Reimers & Gurevych
(2019) make them: the mean over the tokens, scaled to length one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from nescio._checks import require_whole
from nescio._kinds import InputKind
from nescio.encoders._settings import require_dropout
from nescio.encoders._texts import TextEncoder, mean_over_tokens
from nescio.encoders.base import TORCH_LAYERS, Ability, EncoderSpec, EncoderWithHead, Layers
from nescio.errors import InputError

_WIDTH = 384
_HIDDEN = 1536
_NUM_LAYERS = 6
_NUM_HEADS = 12
_VOCABULARY = 30_522
_POSITIONS = 512
_EPSILON = 1e-12  # of the layer normalisations
_INITIAL_DEVIATION = 0.02
# The same network by the names of transformers' BertConfig.
BERT_CONFIG = {
    "vocab_size": _VOCABULARY,
    "hidden_size": _WIDTH,
    "num_hidden_layers": _NUM_LAYERS,
    "num_attention_heads": _NUM_HEADS,
    "intermediate_size": _HIDDEN,
    "max_position_embeddings": _POSITIONS,
    "layer_norm_eps": _EPSILON,
}

# Parts of the published names, and ours.
_NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "segments",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "layers",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attended",
    "attention.output.LayerNorm": "attended_norm",
    "intermediate.dense": "expanded",
    "output.dense": "projected",
    "output.LayerNorm": "projected_norm",
}
_UNUSED = ("pooler.", "embeddings.position_ids")


@dataclass(frozen=True)
class MiniLMSpec(EncoderSpec):
    """MiniLM for texts, mostly English: 22.6 million weights, 384 features, pretrained on sentence pairs.

    Args:
        max_length: Tokens of a text that are read, from 1 to 512; what is longer is cut before.
        num_classes: K.
        dropout: The share of units that are switched off in training, in every layer and before the head.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> network = MiniLMSpec(max_length=16, num_classes=3).build()
        >>> ids = torch.tensor([[101, 2129, 2079, 102, 0, 0]])
        >>> network(ids).shape
        torch.Size([1, 3])
    """

    kind: ClassVar[str] = "minilm"
    about: ClassVar[str] = "MiniLM for texts, with weights from sentence pairs"
    inputs: ClassVar[InputKind] = InputKind.TEXTS
    abilities: ClassVar[frozenset[Ability]] = frozenset(
        {Ability.DROPOUT, Ability.FEATURES, Ability.PRETRAINED}
    )
    default_shape: ClassVar[tuple[int, ...] | None] = (128,)
    max_length: int = 128
    num_classes: int = 10
    dropout: float = 0.1

    def __post_init__(self) -> None:
        require_whole("max_length", self.max_length)
        require_whole("num_classes", self.num_classes)
        if self.max_length > _POSITIONS:
            raise InputError(f"max_length must be at most {_POSITIONS} for minilm, got {self.max_length}")
        require_dropout(self.dropout)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(max_length,)."""
        return (self.max_length,)

    @property
    def num_features(self) -> int:
        """F: 384, for texts of any length."""
        return _WIDTH

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """max_length and num_classes."""
        return {"max_length": input_shape[0], "num_classes": num_classes}

    def build(self, layers: Layers = TORCH_LAYERS) -> EncoderWithHead:
        """A new network from ids of tokens (N, L) to logits (N, K), with weights drawn at random.

        Args:
            layers: Not used: its dense layers see three axes, which other layers do not take.
        """
        return EncoderWithHead(_MiniLM(self.dropout), nn.Linear(_WIDTH, self.num_classes), self.dropout)

    def pretrained_weights(self) -> dict[str, Tensor]:
        """The weights of all-MiniLM-L6-v2, by the names of the network's state, without the head."""
        # Imported here: what fetches is not waited for by those who do not fetch.
        from nescio._fetch.weights import MINILM
        from nescio.encoders._weights import renamed, tensors_of_safetensors

        with torch.device("meta"):  # names and shapes are wanted, not a second network
            expected = _MiniLM(dropout=0.0).state_dict()
        tensors = renamed(tensors_of_safetensors(MINILM), _our_name, expected)
        return {f"encoder.{name}": tensor for name, tensor in tensors.items()}

    def tokenizer_json(self) -> str:
        """The tokenizer of all-MiniLM-L6-v2: word pieces, in lower case."""
        from nescio._fetch.weights import MINILM
        from nescio.encoders._weights import verified_file

        return verified_file(MINILM, "tokenizer.json").read_text(encoding="utf-8")


def _our_name(published: str) -> str | None:
    if published.startswith(_UNUSED):
        return None
    ours = published
    for theirs, name in _NAMES.items():
        ours = ours.replace(theirs, name)
    return ours


class _Layer(nn.Module):
    """Self-attention, then two dense layers, each added to its input and normalised."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.query = nn.Linear(_WIDTH, _WIDTH)
        self.key = nn.Linear(_WIDTH, _WIDTH)
        self.value = nn.Linear(_WIDTH, _WIDTH)
        self.attended = nn.Linear(_WIDTH, _WIDTH)
        self.attended_norm = nn.LayerNorm(_WIDTH, eps=_EPSILON)
        self.expanded = nn.Linear(_WIDTH, _HIDDEN)
        self.projected = nn.Linear(_HIDDEN, _WIDTH)
        self.projected_norm = nn.LayerNorm(_WIDTH, eps=_EPSILON)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(N, L, 384) to the same shape; mask (N, 1, 1, L)."""
        query = _by_heads(self.query(states))
        key = _by_heads(self.key(states))
        value = _by_heads(self.value(states))
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        seen = seen.transpose(1, 2).flatten(2)  # (N, L, 384)
        states = self.attended_norm(states + self.dropout(self.attended(seen)))
        expanded = functional.gelu(self.expanded(states))
        outputs: Tensor = self.projected_norm(states + self.dropout(self.projected(expanded)))
        return outputs


def _by_heads(states: Tensor) -> Tensor:
    """(N, L, 384) to (N, heads, L, 32)."""
    parts = states.view(*states.shape[:2], _NUM_HEADS, _WIDTH // _NUM_HEADS)
    return parts.transpose(1, 2)


class _MiniLM(TextEncoder):
    """Ids of tokens (N, L) to sentence vectors (N, 384)."""

    def __init__(self, dropout: float) -> None:
        super().__init__(_VOCABULARY)
        self.words = nn.Embedding(_VOCABULARY, _WIDTH)
        self.positions = nn.Embedding(_POSITIONS, _WIDTH)
        self.segments = nn.Embedding(2, _WIDTH)  # the second is for pairs of texts, and is not used here
        self.norm = nn.LayerNorm(_WIDTH, eps=_EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList([_Layer(dropout) for _ in range(_NUM_LAYERS)])
        _initialise(self)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Sentence vectors (N, 384) of length one."""
        if ids.shape[1] > _POSITIONS:
            raise InputError(f"a text must have at most {_POSITIONS} tokens, got {ids.shape[1]}")
        positions = torch.arange(ids.shape[1], device=ids.device)
        states = self.words(ids) + self.segments.weight[0] + self.positions(positions)
        states = self.dropout(self.norm(states))
        for layer in self.layers:
            states = layer(states, mask[:, None, None, :])
        return functional.normalize(mean_over_tokens(states, mask), dim=1)


def _initialise(network: nn.Module) -> None:
    """As BERT: small normal weights, biases zero."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=_INITIAL_DEVIATION)
        if isinstance(layer, nn.Linear):
            nn.init.zeros_(layer.bias)
