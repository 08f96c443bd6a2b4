"""Tiny models of transformers in folders, with weights drawn at random."""

import json

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    ResNetConfig,
    ResNetModel,
    ViTConfig,
    ViTForImageClassification,
)
from transformers.utils import logging

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "how", "do", "i", "know"]
PROCESSOR = {
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.25, 0.25, 0.5],
    "size": {"height": 32, "width": 24},
}


def saved(folder, model, **files):
    torch.manual_seed(0)
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def bert(folder):
    saved(folder, BertModel(BertConfig(**SMALL, vocab_size=30, max_position_embeddings=40)))
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    (folder / "tokenizer.json").write_text(words.to_str())
    return folder


def vit(folder):
    """A classifier, whose checkpoint has no pooler, as most that people have."""
    model = ViTForImageClassification(ViTConfig(**SMALL, image_size=32, patch_size=8))
    return saved(folder, model, preprocessor_config=PROCESSOR)


def resnet(folder):
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
    return saved(folder, ResNetModel(config), preprocessor_config=PROCESSOR)
