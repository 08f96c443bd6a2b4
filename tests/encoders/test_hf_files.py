import sys

import pytest

from nescio.encoders._hf_files import channel_scaling, explaining, image_processor, image_size, read_file
from nescio.errors import FetchError, InputError, MissingExtraError


@pytest.mark.parametrize(
    ("processor", "config", "size"),
    [
        ({"crop_size": {"height": 20, "width": 30}, "size": 99}, {}, (20, 30)),
        ({"size": {"shortest_edge": 40}}, {"image_size": 50}, (40, 40)),
        ({"size": 60}, {}, (60, 60)),
        ({}, {"image_size": [8, 9]}, (8, 9)),
        ({}, {}, (224, 224)),
    ],
)
def test_the_size_that_a_model_likes(processor, config, size):
    assert image_size(processor, config) == size


def test_how_channels_are_scaled():
    assert channel_scaling({"image_mean": [0.5], "image_std": [0.25], "rescale_factor": 0.5}, 1) == (
        (1.0,),
        (0.5,),
    )
    assert channel_scaling({"do_rescale": False, "image_mean": [7.0], "image_std": [2.0]}, 1) == (
        (7.0,),
        (2.0,),
    )
    mean, scale = channel_scaling({"do_normalize": False, "image_mean": [0.5]}, 3)
    assert (mean, scale) == ((0.0,) * 3, pytest.approx((255.0,) * 3))


def test_a_processor_among_others(tmp_path):
    (tmp_path / "processor_config.json").write_text('{"image_processor": {"size": 7}}')
    assert image_processor(str(tmp_path)) == {"size": 7}


def test_files_of_a_folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert read_file(str(tmp_path), "config.json") == "{}"
    assert read_file(str(tmp_path), "tokenizer.json") is None


def test_files_of_the_hub(tmp_path, monkeypatch):
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    asked = []

    def download(name, file):
        asked.append((name, file))
        if file == "missing":
            raise EntryNotFoundError("404")
        if file == "offline":
            raise LocalEntryNotFoundError("no way there\nand more")
        (tmp_path / file).write_text("content")
        return str(tmp_path / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert read_file("owner/name", "there") == "content"
    assert read_file("owner/name", "missing") is None
    with pytest.raises(FetchError, match=r"hf:owner/name can't be had: no way there; .* name it: hf:FOLDER"):
        read_file("owner/name", "offline")
    assert asked[0] == ("owner/name", "there")


def test_what_is_no_name_on_the_hub():
    with pytest.raises(InputError, match="there is no folder a/b/c"):
        read_file("a/b/c", "config.json")


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"nescio\[hf\]"):
        read_file("owner/name", "config.json")


def test_an_error_without_words():
    with pytest.raises(FetchError, match="hf:x can't be had: KeyError"), explaining("x"):
        raise KeyError
