"""Trained models on the Hugging Face hub: the model file, and its card as the page of the repository.

save_pretrained(model, "fruit", data=test)               a folder as the hub takes it
push_to_hub(model, "someone/fruit", data=test)           the same, uploaded
model = from_pretrained("someone/fruit")                 from the hub, its cache, or a folder
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from nescio._fetch.downloads import first_line
from nescio._files import write_atomically
from nescio.data import LabelledData
from nescio.data._folders import RUN_MODEL
from nescio.encoders._hf_files import HUB_ID
from nescio.errors import DataError, FetchError, InputError, MissingExtraError, ModelFileError
from nescio.inference.model import TrainedModel
from nescio.methods import Method
from nescio.opinions.categorical import Prediction
from nescio.reports import CardContext, write_card

__all__ = ["from_pretrained", "push_to_hub", "save_pretrained"]

CARD = "README.md"  # what the hub shows of a repository
PICTURES = "card"
WRITTEN_CARD = "card.md"  # as `write_card` and `nescio train` call it


def save_pretrained(
    model: TrainedModel,
    folder: str | Path,
    *,
    data: LabelledData | None = None,
    ood: Prediction | None = None,
    context: CardContext | None = None,
    run_dir: str | Path | None = None,
) -> Path:
    """Write a model and its card into a folder, as the hub takes it.

    Args:
        model: The model.
        folder: Where to write; it is made where there is none.
        data: Labelled data that the model was not trained on: the card is measured on it. Without it the card
            says what the model is and how it is loaded, and gives no figures.
        ood: What the model says of OOD inputs, for a card that is measured.
        context: What else the card says: name, license and so on.
        run_dir: The folder of a run whose card is taken, instead of `data`.

    Returns:
        The folder.

    Raises:
        InputError: If both `data` and `run_dir` are given.
        DataError: If the folder can't be written to, or the run has no card.
        MissingExtraError: If a card is measured, and matplotlib or jinja2 is not installed.

    Example:
        >>> import tempfile
        >>> import nescio, torch
        >>> from nescio.integrations.hub import from_pretrained, save_pretrained
        >>> rows = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(20, 1)
        >>> table = nescio.data.Table(rows, torch.arange(40) % 2, ("up", "down"), "forty rows")
        >>> settings = nescio.TrainingSettings(epochs=30, batch_size=8, learning_rate=0.01)
        >>> model = nescio.TrainedModel.train(table, settings=settings)
        >>> folder = save_pretrained(model, tempfile.mkdtemp())
        >>> sorted(path.name for path in folder.iterdir())
        ['README.md', 'model.safetensors']
        >>> from_pretrained(folder).predict(rows[:2]).labels
        tensor([0, 1])
    """
    if data is not None and run_dir is not None:
        raise InputError("data and run_dir are two ways to a card; give one of them, got both")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder / RUN_MODEL)
        if run_dir is not None:
            _copy_card(Path(run_dir), folder)
        elif data is not None:
            _write_measured_card(model, data, folder, ood, context)
        else:
            write_atomically(folder / CARD, _plain_card(model, context or CardContext()).encode())
    except OSError as error:
        raise DataError(f"{folder} can't be written to: {error.strerror or error}") from error
    except ModelFileError as error:
        raise DataError(str(error)) from error
    return folder


def push_to_hub(
    model: TrainedModel,
    repo_id: str,
    *,
    data: LabelledData | None = None,
    ood: Prediction | None = None,
    context: CardContext | None = None,
    run_dir: str | Path | None = None,
    private: bool | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    commit_message: str = "Upload a model of nescio",
) -> str:
    """Upload a model and its card to the hub; the repository is made where there is none.

    The file holds what the model was trained on by name, path and digest, not the data itself.

    Args:
        model: The model.
        repo_id: Name of the repository, "someone/fruit".
        data: Labelled data that the card is measured on, as for `save_pretrained`.
        ood: What the model says of OOD inputs, for a card that is measured.
        context: What else the card says.
        run_dir: The folder of a run whose card is taken, instead of `data`.
        private: Whether a repository that is made is private; None for the usual of its owner.
        revision: The branch to upload to, made where there is none; None for the main one.
        token: A token of the hub; None for the one that is stored, False for none.
        commit_message: What the commit says.

    Returns:
        The address of the commit.

    Raises:
        FetchError: If the hub refuses it or is out of reach; the message says why.
        MissingExtraError: If huggingface_hub is not installed.

    Example:
        >>> from nescio.integrations.hub import push_to_hub
        >>> push_to_hub(model, "someone/fruit", private=True)  # doctest: +SKIP
    """
    hub = _huggingface_hub()
    api = hub.HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder, data=data, ood=ood, context=context, run_dir=run_dir)
        with _explaining(repo_id, "uploaded"):
            api.create_repo(repo_id, private=private, exist_ok=True)
            if revision is not None:
                api.create_branch(repo_id, branch=revision, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo_id, folder_path=folder, revision=revision, commit_message=commit_message
            )
    return str(getattr(commit, "commit_url", commit))


def from_pretrained(
    source: str | Path,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    network: nn.Module | None = None,
    method: Method | type[Method] | None = None,
) -> TrainedModel:
    """Load a model from a folder, or from the hub and its cache.

    Nothing of the repository is run, and nothing is unpickled.

    Args:
        source: A folder that `save_pretrained` wrote, or the name of a repository.
        revision: Branch, tag or commit of the repository; None for the main branch.
        token: A token of the hub; None for the one that is stored, False for none.
        cache_dir: Where the hub's files are kept; None for the hub's own cache.
        local_files_only: Whether only the cache is looked into: offline.
        network: The module, where it was the user's own.
        method: The method, where it was the user's own and is not registered.

    Returns:
        The model.

    Raises:
        InputError: If it is neither a folder nor a name that a repository can have.
        FetchError: If the repository, the revision or the file is not there, or the hub is out of reach.
        ModelFileError: If the file is damaged or something else.
        MissingExtraError: If huggingface_hub is not installed and it is no folder.

    Example:
        >>> from nescio.integrations.hub import from_pretrained
        >>> model = from_pretrained("someone/fruit", revision="v1")  # doctest: +SKIP
    """
    if Path(source).is_dir():
        return TrainedModel.load(source, network=network, method=method)
    if not HUB_ID.fullmatch(str(source)):
        raise InputError(f"source must be a folder or the name of a repository; there is no folder {source}")
    hub = _huggingface_hub()
    with _explaining(str(source), "had"):
        path = hub.hf_hub_download(
            str(source),
            RUN_MODEL,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
        )
    return TrainedModel.load(path, network=network, method=method)


def _write_measured_card(
    model: TrainedModel,
    data: LabelledData,
    folder: Path,
    ood: Prediction | None,
    context: CardContext | None,
) -> None:
    with tempfile.TemporaryDirectory() as written:
        write_card(model, data, written, ood=ood, context=context)
        _copy_card(Path(written), folder)


def _copy_card(written: Path, folder: Path) -> None:
    """The card that was written in one folder, as the page of a repository in the other."""
    card = written / WRITTEN_CARD
    if not card.is_file():
        raise DataError(
            f"{written} has no {WRITTEN_CARD}; `nescio train` and `nescio evaluate` with a card write one"
        )
    write_atomically(folder / CARD, card.read_bytes())
    pictures = written / PICTURES
    if pictures.is_dir():
        shutil.copytree(pictures, folder / PICTURES, dirs_exist_ok=True)


def _plain_card(model: TrainedModel, context: CardContext) -> str:
    """A card without figures, in the form of those with."""
    name = context.name or f"{model.training.get('data', {}).get('name', 'a model')}, {model.method.name}"
    name = " ".join(name.split())
    lines = [
        "---",
        "library_name: nescio",
        f"license: {context.license}",
        "tags:",
        "- nescio",
        "- uncertainty",
        f"- {model.method.name}",
        "---",
        "",
        f"# {name}",
        "",
        f"A classifier of {len(model.classes)} classes that says how much it does not know.",
        "",
        "```python",
        "from nescio.integrations.hub import from_pretrained",
        "",
        'model = from_pretrained("REPOSITORY")  # the name of this repository, or its folder',
        "records = model.records(inputs)",
        "```",
        "",
        "It was not measured for this card.",
        "",
    ]
    return "\n".join(lines)


def _huggingface_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingExtraError("hub", "huggingface_hub") from error
    return huggingface_hub


@contextmanager
def _explaining(repo_id: str, done: str) -> Iterator[None]:
    """Say in one line what the hub says; the library's errors are of many kinds."""
    try:
        yield
    except Exception as error:
        reason = first_line(str(error)) or type(error).__name__
        raise FetchError(f"{repo_id} can't be {done}: {type(error).__name__}: {reason}") from error
