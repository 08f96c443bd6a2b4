import json

import pytest
import torch

from nescio._fetch.weights import MINILM
from nescio.encoders import Ability, InputKind, MiniLMSpec, make_encoder, spec_from_dict, spec_to_dict
from nescio.encoders._weights import verified_file
from nescio.encoders.minilm import _our_name
from nescio.errors import DataError, FetchError, InputError
from nescio.methods import make_method

SENTENCES = ["I do not know.", "How do I reset my password?", "the weather in Lisbon tomorrow, please", "x"]
IDS = [
    [101, 1045, 2079, 2025, 2113, 1012, 102],
    [101, 2129, 2079, 1045, 25141, 2026, 20786, 1029, 102],
    [101, 1996, 4633, 1999, 11929, 4826, 1010, 3531, 102],
    [101, 1060, 102],
]
# The first numbers of the vectors that transformers 5.22.2 computes of them with the same weights.
VECTORS = [
    [-0.058320, 0.001825, -0.034493, -0.021644, 0.018662, 0.035526, 0.166597, -0.075015],
    [0.006903, -0.063023, -0.072044, -0.032496, -0.042709, 0.070429, 0.009074, 0.015408],
    [-0.021552, 0.034056, 0.100312, 0.047368, -0.018504, -0.014990, -0.069574, 0.000577],
    [-0.097910, -0.064001, -0.023181, -0.046197, 0.021700, -0.028492, 0.154854, 0.054404],
]


def padded(texts, width):
    ids = torch.zeros(len(texts), width, dtype=torch.int64)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    return ids


@pytest.fixture(scope="module")
def untrained():
    torch.manual_seed(0)
    return MiniLMSpec(max_length=12, num_classes=3).build().eval()


def test_what_it_says_of_itself():
    assert make_encoder(None, None, 4, kind=InputKind.TEXTS) == MiniLMSpec(128, 4)
    assert make_encoder("minilm", (64,), 4) == MiniLMSpec(64, 4)
    assert MiniLMSpec().abilities == set(Ability) - {Ability.LAYERS}
    assert MiniLMSpec().normalization is None


def test_it_has_as_many_weights_as_published(untrained):
    assert sum(parameter.numel() for parameter in untrained.encoder.parameters()) == 22_565_376


def test_features_have_length_one(untrained):
    features = untrained.features(padded(IDS, 12))
    assert features.shape == (4, 384)
    torch.testing.assert_close(features.norm(dim=1), torch.ones(4))


def test_it_can_be_exported(untrained):
    count = torch.export.Dim("count")
    program = torch.export.export(untrained, (padded(IDS, 12),), dynamic_shapes=({0: count},))
    others = padded([*IDS, [101, 102]], 12)
    torch.testing.assert_close(program.module()(others), untrained(others))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: MiniLMSpec(max_length=513), "max_length must be at most 512 for minilm, got 513"),
        (lambda: MiniLMSpec(max_length=0), "max_length must be a whole number from 1 on"),
        (lambda: MiniLMSpec(dropout=2), "dropout must be"),
        (lambda: make_encoder("minilm", (3, 32, 32), 2), "minilm takes texts, got images"),
        (lambda: make_encoder("minilm", (9,), 2, kind=InputKind.ROWS), "takes texts, got rows .*: mlp"),
        (lambda: make_method("fflu").build(MiniLMSpec()), "layers that can be replaced, and minilm has none"),
    ],
)
def test_what_does_not_fit(make, reason):
    with pytest.raises(InputError, match=reason):
        make()


def test_a_text_that_is_too_long(untrained):
    with pytest.raises(InputError, match="at most 512 tokens, got 600"):
        untrained(torch.ones(1, 600, dtype=torch.int64))


def test_published_names():
    assert _our_name("encoder.layer.3.attention.output.LayerNorm.bias") == "layers.3.attended_norm.bias"
    assert _our_name("encoder.layer.0.output.dense.weight") == "layers.0.projected.weight"
    assert _our_name("pooler.dense.weight") is None


@pytest.fixture
def pretrained(registry):
    spec = MiniLMSpec(max_length=32, num_classes=3)
    try:
        weights = spec.pretrained_weights()
    except FetchError as error:
        registry(str(error))
    network = spec.build().eval()
    left_out = network.load_state_dict(weights, strict=False)
    assert (left_out.missing_keys, left_out.unexpected_keys) == (["head.weight", "head.bias"], [])
    return network


@pytest.mark.network
def test_the_published_weights_give_the_published_vectors(pretrained):
    with torch.no_grad():
        features = pretrained.features(padded(IDS, 32))
    torch.testing.assert_close(features[:, :8], torch.tensor(VECTORS), atol=1e-5, rtol=0)


@pytest.mark.network
def test_the_tokenizer_that_goes_with_them(pretrained):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(MiniLMSpec().tokenizer_json())
    tokenizer.no_padding()
    assert [encoding.ids for encoding in tokenizer.encode_batch(SENTENCES)] == IDS


@pytest.mark.network
def test_a_flipped_bit_in_weights_or_tokenizer(pretrained, tmp_path, monkeypatch):
    folder = tmp_path / "minilm"
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        content = bytearray(verified_file(MINILM, name).read_bytes())
        content[len(content) // 2] ^= 4
        (folder / name).write_bytes(bytes(content))
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=r"model.safetensors can't be used: its SHA-256 .* data fetch minilm"):
        MiniLMSpec().pretrained_weights()
    with pytest.raises(DataError, match=r"tokenizer.json can't be used: its SHA-256 is not"):
        MiniLMSpec().tokenizer_json()


def test_fields_are_plain_data():
    spec = MiniLMSpec(40, 7, dropout=0.3)
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec
