import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from tests.encoders import hf_models

from nescio.encoders import (
    HFImageSpec,
    HFTextSpec,
    InputKind,
    hf,
    make_encoder,
    spec_from_dict,
    spec_to_dict,
)
from nescio.errors import DataError, FetchError, InputError, MissingExtraError
from nescio.testing import ENCODER_CHECKS, check_encoder

IDS = torch.tensor([[2, 4, 5, 3, 0, 0], [2, 4, 5, 6, 7, 3]])


@pytest.fixture
def bert(tmp_path):
    return hf_models.bert(tmp_path)


@pytest.fixture
def vit(tmp_path):
    return hf_models.vit(tmp_path)


def with_weights(spec):
    network = spec.build().eval()
    left_out = network.load_state_dict(spec.pretrained_weights(), strict=False)
    assert (left_out.missing_keys, left_out.unexpected_keys) == (["head.weight", "head.bias"], [])
    return network


@pytest.mark.parametrize("check", ENCODER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", [hf_models.bert, hf_models.vit, hf_models.resnet])
def test_contract(make, check, tmp_path):
    check(make_encoder(f"hf:{make(tmp_path)}", None, 3))


def test_texts(bert):
    spec = make_encoder(f"hf:{bert}", None, 3, kind=InputKind.TEXTS)
    assert (spec.kind, spec.input_shape, spec.num_features, spec.pooling) == ("hf-text", (40,), 16, "mean")
    assert json.loads(spec.tokenizer_json())["model"]["vocab"]["know"] == 7
    model = hf_models.BertModel.from_pretrained(bert).eval()
    mask = (IDS != 0).long()
    with torch.no_grad():
        states = model(input_ids=IDS, attention_mask=mask).last_hidden_state
        features = with_weights(spec).features(IDS)
    expected = torch.stack([states[0, :4].mean(0), states[1].mean(0)])
    torch.testing.assert_close(features, expected)


@pytest.mark.parametrize(("pooling", "kept"), [("first", False), ("pooled", True)])
def test_other_features(bert, pooling, kept):
    spec = make_encoder(f"hf:{bert}", (20,), 3, pooling=pooling)
    network = with_weights(spec)
    assert (network.encoder.model.pooler is not None) == kept
    model = hf_models.BertModel.from_pretrained(bert).eval()
    with torch.no_grad():
        outputs = model(input_ids=IDS, attention_mask=(IDS != 0).long())
        expected = outputs.pooler_output if kept else outputs.last_hidden_state[:, 0]
        torch.testing.assert_close(network.features(IDS), expected)


def test_images(vit):
    spec = make_encoder(f"hf:{vit}", None, 5)
    assert (spec.kind, spec.input_shape, spec.num_features, spec.pooling) == (
        "hf-image",
        (3, 32, 24),
        16,
        "mean",
    )
    assert spec.normalization.mean == pytest.approx((127.5, 102.0, 76.5))
    assert spec.normalization.scale == pytest.approx((63.75, 63.75, 127.5))
    network = with_weights(spec)
    classifier = hf_models.ViTForImageClassification.from_pretrained(vit).eval()
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        expected = classifier.vit(images).last_hidden_state.mean(1)
        torch.testing.assert_close(network.features(images), expected)
        assert network(torch.rand(2, 3, 48, 40)).shape == (2, 5)  # positions are stretched


def test_convolutions_have_their_own_pooled_output(tmp_path):
    spec = make_encoder(f"hf:{hf_models.resnet(tmp_path)}", (3, 64, 64), 4)
    assert (spec.pooling, spec.num_features, spec.input_shape) == ("pooled", 12, (3, 64, 64))
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        expected = (
            hf_models.ResNetModel.from_pretrained(tmp_path).eval()(images).last_hidden_state.mean((2, 3))
        )
        torch.testing.assert_close(with_weights(spec).features(images), expected)


def test_a_folder_below_the_home(bert, monkeypatch):
    monkeypatch.setenv("HOME", str(bert.parent))
    spec = make_encoder(f"hf:~/{bert.name}", None, 3)
    assert spec.source == str(bert)
    assert with_weights(spec)(IDS).shape == (2, 3)


def test_it_is_built_again_without_the_folder(bert):
    spec = make_encoder(f"hf:{bert}", None, 3)
    state = with_weights(spec).state_dict()
    for file in bert.iterdir():
        file.unlink()
    bert.rmdir()
    again = spec_from_dict(json.loads(json.dumps(spec_to_dict(spec))))
    assert again == spec
    network = again.build()
    network.load_state_dict(state)
    assert network(IDS).shape == (2, 3)
    with pytest.raises(InputError, match="there is no folder"):
        again.tokenizer_json()
    with pytest.raises(FetchError, match=r"can't be had: .*name it: hf:FOLDER"):
        again.pretrained_weights()


def test_weights_that_lack_a_part(vit):
    spec = make_encoder(f"hf:{vit}", None, 3, pooling="pooled")
    with pytest.raises(DataError, match=r"lack .*pooler"):
        spec.pretrained_weights()


def test_pickled_weights_are_not_read(bert):
    model = hf_models.BertModel.from_pretrained(bert)
    (bert / "model.safetensors").unlink()
    torch.save(model.state_dict(), bert / "pytorch_model.bin")
    spec = make_encoder(f"hf:{bert}", None, 3)
    with pytest.raises(FetchError, match="can't be had"):
        spec.pretrained_weights()


def test_code_of_the_folder_is_not_run(bert):
    config = json.loads((bert / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "code.Harmful", "AutoModel": "code.Harmful"}
    (bert / "code.py").write_text("raise SystemExit('this ran')")
    (bert / "config.json").write_text(json.dumps(config))
    spec = make_encoder(f"hf:{bert}", None, 3)
    assert with_weights(spec)(IDS).shape == (2, 3)
    (bert / "config.json").write_text(json.dumps({**config, "model_type": "unheard-of"}))
    with pytest.raises(InputError, match="knows no model of the type 'unheard-of'"):
        make_encoder(f"hf:{bert}", None, 3)


@pytest.mark.parametrize("prefix", ["", "_"])
def test_kernels_of_strangers_are_not_fetched(bert, prefix):
    """A configuration may name a kernel on the hub, which transformers would fetch and run."""
    plain = with_weights(make_encoder(f"hf:{bert}", None, 3))
    kernels = {f"{prefix}attn_implementation": "a-stranger/attention"}
    config = json.loads((bert / "config.json").read_text())
    kernels[f"{prefix}experts_implementation"] = "a-stranger/experts"
    (bert / "config.json").write_text(json.dumps({**config, **kernels, "part": kernels}))
    network = with_weights(make_encoder(f"hf:{bert}", None, 3))
    settings = network.encoder.model.config
    assert settings._attn_implementation == "sdpa"
    assert settings.part == {}
    with torch.no_grad():
        torch.testing.assert_close(network.features(IDS), plain.features(IDS))


def test_a_package_that_a_model_needs_is_named(tmp_path, monkeypatch):
    import transformers

    def lacking(*args, **options):
        raise ImportError("\nBertModel requires the timm library\nInstall it")

    monkeypatch.setattr(transformers.AutoModel, "from_config", lacking)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "vocab_size": 9}')
    with pytest.raises(
        InputError, match="can't build a model of the type 'bert': BertModel requires the timm"
    ):
        make_encoder(f"hf:{tmp_path}", None, 3)


def test_padding_of_another_id(bert):
    """Models after RoBERTa pad with 1: the zeros behind a text become that."""
    config = {"model_type": "roberta", **hf_models.SMALL, "vocab_size": 30, "pad_token_id": 1}
    config["max_position_embeddings"] = 12
    (bert / "config.json").write_text(json.dumps(config))
    spec = make_encoder(f"hf:{bert}", None, 3)
    assert spec.input_shape == (10,)
    network = spec.build().eval()
    full = torch.full((1, 10), 5)
    with torch.no_grad():
        together = network(torch.cat([full, torch.tensor([[5, 6, 7, 0, 0, 0, 0, 0, 0, 0]])]))
        torch.testing.assert_close(network(torch.tensor([[5, 6, 7]]))[0], together[1])


def test_a_model_without_padding_reads_the_token_0(bert):
    """As GPT-2, to which it is an exclamation mark: a text may end in it."""
    config = {
        "model_type": "gpt2",
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "vocab_size": 30,
        "eos_token_id": 29,
    }
    (bert / "config.json").write_text(json.dumps(config))
    spec = make_encoder(f"hf:{bert}", None, 3)
    assert spec.text_padding == spec.padding == 29
    network = spec.build().eval()
    with torch.no_grad():
        plain, exclaimed = network(torch.tensor([[5, 7, 29, 29], [5, 7, 0, 29]]))
        torch.testing.assert_close(network(torch.tensor([[5, 7, 0]]))[0], exclaimed)
    assert not torch.allclose(plain, exclaimed)
    check_encoder(spec)
    assert spec_to_dict(spec)["padding"] == 29
    assert "padding" not in spec_to_dict(replace(spec, padding=0))  # as before it was there


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 20}, 20),
        # It has no table of places, whatever it says.
        ({"model_type": "t5", "d_model": 16, "num_layers": 1, "num_heads": 2, "n_positions": 20}, 128),
    ],
)
def test_how_long_a_text_may_be(bert, config, length):
    (bert / "config.json").write_text(json.dumps({**config, "vocab_size": 30}))
    spec = make_encoder(f"hf:{bert}", None, 3)
    assert spec.input_shape == (length,)
    assert spec.build()(torch.full((1, length), 5)).shape == (1, 3)
    if length == 20:
        with pytest.raises(InputError, match=r"max_length must be at most 20 for .*, got 21"):
            replace(spec, max_length=21)


def test_a_spec_is_read_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    config = json.dumps({"model_type": "bert", "vocab_size": 30, "max_position_embeddings": 40})
    spec = HFTextSpec("x", config, "mean", feature_size=8, num_classes=2, max_length=30)
    assert spec.input_shape == (30,)
    with pytest.raises(MissingExtraError, match="transformers is not installed"):
        spec.build()


@pytest.mark.parametrize(
    ("tokens", "padding"),
    [
        ({}, 0),
        ({"pad_token_id": 0, "eos_token_id": 2}, 0),
        ({"pad_token_id": 1}, 0),  # where 0 begins a text
        ({"pad_token_id": 28, "eos_token_id": 29}, 28),
        ({"pad_token_id": None, "eos_token_id": [27, 29]}, 27),
        ({"eos_token_id": 300}, 0),
        ({"eos_token_id": []}, 0),
        ({"pad_token_id": -1, "eos_token_id": 29}, 29),
        ({"pad_token_id": 30, "eos_token_id": 1}, 0),
    ],
)
def test_what_stands_behind_the_end_of_a_text(tokens, padding):
    assert hf._padding_of({"vocab_size": 30, **tokens}) == padding


def test_padding_that_is_no_token(bert):
    """Models with a padding of -1 have none: what stands behind a text is not looked at."""
    config = {"model_type": "llama", **hf_models.SMALL, "vocab_size": 30, "pad_token_id": -1}
    (bert / "config.json").write_text(json.dumps({**config, "eos_token_id": 29}))
    spec = make_encoder(f"hf:{bert}", None, 3)
    network = spec.build().eval()
    with torch.no_grad():
        padded = network(torch.tensor([[5, 6, 29, 29], [5, 6, 7, 8]]))
        torch.testing.assert_close(network(torch.tensor([[5, 6]]))[0], padded[0])
    (bert / "config.json").write_text(json.dumps({**config, "pad_token_id": 30}))
    with pytest.raises(
        InputError, match="can't build a model of the type 'llama': Padding_idx must be within"
    ):
        make_encoder(f"hf:{bert}", None, 3)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "config.json of .* must be JSON"),
        ("[]", "config.json of .* must be a JSON object, got list"),
        ('{"model_type": "clip", "vision_config": {}}', "takes images and texts at once"),
        ('{"model_type": "wav2vec2", "hidden_size": 8}', "'wav2vec2', is no model for images or texts"),
        ('{"model_type": "vit", "image_size": 8}', r"has no preprocessor_config.json, which says how images"),
        (
            '{"model_type": "bert", "vocab_size": 9, "hidden_size": 7}',
            "can't build a model of the type 'bert'",
        ),
    ],
)
def test_folders_that_do_not_fit(tmp_path, config, reason):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(InputError, match=reason):
        make_encoder(f"hf:{tmp_path}", None, 3)


def test_names_that_do_not_fit(tmp_path):
    with pytest.raises(InputError, match="named hf:PATH_OR_ID, got no path"):
        make_encoder("hf:", None, 3)
    with pytest.raises(InputError, match=r"has no config.json: it is no folder of a model"):
        make_encoder(f"hf:{tmp_path}", None, 3)
    with pytest.raises(InputError, match="there is no folder /no/such/place"):
        make_encoder("hf:/no/such/place", None, 3)
    with pytest.raises(InputError, match=r"settings do not fit the encoder hf-text: .*source"):
        make_encoder("hf-text", (20,), 3)


def test_data_of_another_kind(bert):
    with pytest.raises(InputError, match="takes texts, got images"):
        make_encoder(f"hf:{bert}", (3, 32, 32), 3)
    with pytest.raises(InputError, match="takes texts, got rows"):
        make_encoder(f"hf:{bert}", (20,), 3, kind=InputKind.ROWS)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"pooling": "max"}, "pooling must be one of mean, first, pooled, got 'max'"),
        ({"max_length": 41}, "max_length must be at most 40 for .*, got 41"),
        ({"config": "[]"}, "config must be a JSON object"),
        ({"source": 3}, "source must be a text, got 3"),
        ({"dropout": 1}, "dropout must be"),
        ({"feature_size": 0}, "feature_size must be a whole number"),
    ],
)
def test_settings_that_do_not_fit(bert, settings, reason):
    with pytest.raises(InputError, match=reason):
        replace(make_encoder(f"hf:{bert}", None, 3), **settings)


def test_a_mean_for_each_channel():
    config = json.dumps({"model_type": "vit"})
    with pytest.raises(InputError, match="mean and scale must have a number for each channel"):
        HFImageSpec("x", config, "mean", 4, 3, mean=(1.0,), scale=(1.0, 2.0))


def test_a_pooled_output_that_is_not_there(bert):
    config = json.dumps({"model_type": "distilbert", "dim": 8, "n_layers": 1, "n_heads": 2, "vocab_size": 30})
    spec = HFTextSpec("x", config, "pooled", feature_size=8, num_classes=2)
    with pytest.raises(InputError, match="pooling must be mean or first: the model has no pooled output"):
        spec.build()(IDS)


def test_without_the_extra(monkeypatch, bert):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"transformers is not installed; .*nescio\[hf\]"):
        make_encoder(f"hf:{bert}", None, 3)


def test_encoders_are_imported_without_it():
    code = "import sys, nescio.encoders; print('transformers' in sys.modules, 'tokenizers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
