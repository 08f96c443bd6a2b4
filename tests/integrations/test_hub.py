"""Models go into folders for real; the hub is a folder behind the functions of huggingface_hub."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from huggingface_hub import ModelCard
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError

import nescio
from nescio.errors import DataError, FetchError, InputError, MissingExtraError, ModelFileError
from nescio.integrations.hub import from_pretrained, push_to_hub, save_pretrained
from nescio.reports import CardContext, write_card

HFAPI = huggingface_hub.HfApi
DOWNLOAD = huggingface_hub.hf_hub_download
ROWS = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(20, 1)
TABLE = nescio.data.Table(ROWS, torch.arange(40) % 2, ("up", "down"), "forty rows")


@pytest.fixture(scope="module")
def model():
    settings = nescio.TrainingSettings(epochs=20, batch_size=8, learning_rate=0.01)
    trained = nescio.TrainedModel.train(TABLE, settings=settings)
    return trained.with_rule(nescio.AbstentionRule.for_coverage(trained.predict(ROWS), TABLE.labels, 1.0))


def same(one, other):
    assert one.classes == other.classes
    assert one.rule == other.rule
    return torch.equal(one.predict(ROWS).evidence, other.predict(ROWS).evidence)


def test_a_folder_and_back(model, tmp_path):
    assert save_pretrained(model, tmp_path / "new" / "fruit") == tmp_path / "new" / "fruit"
    assert same(from_pretrained(tmp_path / "new" / "fruit"), model)
    card = ModelCard.load(tmp_path / "new" / "fruit" / "README.md")
    assert card.data.library_name == "nescio"
    assert card.data.license == "unknown"
    assert "edl" in card.data.tags
    assert "It was not measured for this card." in card.text


def test_a_card_that_is_measured(model, tmp_path):
    ood = model.predict(torch.rand(30, 2))
    context = CardContext(name="two ways", license="mit", ood_name="noise")
    save_pretrained(model, tmp_path, data=TABLE, ood=ood, context=context)
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.license == "mit"
    assert card.data.pipeline_tag == "tabular-classification"
    figures = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert figures["accuracy"] == 1.0
    assert {"roc_auc", "aurc"} <= figures.keys()
    named = [line for line in card.text.splitlines() if "](card/" in line]
    assert named
    for line in named:
        assert (tmp_path / line.partition("](")[2].partition(")")[0]).is_file()
    assert not (tmp_path / "report.html").exists()


def test_the_card_of_a_run_is_taken(model, tmp_path):
    write_card(model, TABLE, tmp_path / "run", context=CardContext(name="of a run"))
    save_pretrained(model, tmp_path / "out", run_dir=tmp_path / "run")
    assert "# of a run" in (tmp_path / "out" / "README.md").read_text()
    assert {path.name for path in (tmp_path / "out" / "card").iterdir()} >= {"confusion.png"}
    with pytest.raises(DataError, match=r"has no card.md"):
        save_pretrained(model, tmp_path / "out", run_dir=tmp_path)
    with pytest.raises(InputError, match="data and run_dir are two ways to a card"):
        save_pretrained(model, tmp_path / "out", run_dir=tmp_path / "run", data=TABLE)


class FakeHub:
    """What HfApi does, in a folder; every call must fit the signature of the real function."""

    def __init__(self, folder):
        self.folder = folder
        self.calls = []
        self.tokens = []

    def api(self, **options):
        inspect.signature(HFAPI.__init__).bind(None, **options)
        self.tokens.append(options.get("token"))
        return SimpleNamespace(
            create_repo=self._called("create_repo", self.create_repo),
            create_branch=self._called("create_branch", self.create_branch),
            upload_folder=self._called("upload_folder", self.upload_folder),
        )

    def _called(self, name, function):
        signature = inspect.signature(getattr(HFAPI, name))

        def call(*values, **options):
            bound = signature.bind(None, *values, **options)
            self.calls.append((name, {key: value for key, value in bound.arguments.items() if key != "self"}))
            return function(**self.calls[-1][1])

        return call

    def create_repo(self, repo_id, private, exist_ok):
        (self.folder / repo_id / "main").mkdir(parents=True, exist_ok=exist_ok)

    def create_branch(self, repo_id, branch, exist_ok):
        (self.folder / repo_id / branch).mkdir(exist_ok=exist_ok)

    def upload_folder(self, repo_id, folder_path, revision, commit_message):
        shutil.copytree(folder_path, self.folder / repo_id / (revision or "main"), dirs_exist_ok=True)
        return SimpleNamespace(commit_url=f"hub/{repo_id}/commit/1")

    def download(self, repo_id, filename, **options):
        inspect.signature(DOWNLOAD).bind(repo_id, filename, **options)
        self.calls.append(("download", options))
        path = self.folder / repo_id / (options["revision"] or "main") / filename
        if options["local_files_only"] and not path.exists():
            raise LocalEntryNotFoundError("Cannot find the requested files in the disk cache\nand more")
        if not path.exists():
            response = SimpleNamespace(headers={}, request=None, status_code=404)
            raise RepositoryNotFoundError("404 Client Error: Repository Not Found", response=response)
        return str(path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    fake = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", fake.api)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.download)
    return fake


def test_to_the_hub_and_back(model, hub):
    address = push_to_hub(model, "someone/fruit", private=True, token="hf_x", data=TABLE)
    assert address == "hub/someone/fruit/commit/1"
    assert [name for name, _ in hub.calls] == ["create_repo", "upload_folder"]
    assert hub.calls[0][1] == {"repo_id": "someone/fruit", "private": True, "exist_ok": True}
    assert hub.tokens == ["hf_x"]
    uploaded = {path.name for path in (hub.folder / "someone/fruit/main").iterdir()}
    assert uploaded == {"README.md", "model.safetensors", "card"}
    assert same(from_pretrained("someone/fruit", token=False, cache_dir="here"), model)
    options = hub.calls[-1][1]
    assert (options["token"], options["cache_dir"], options["revision"]) == (False, "here", None)


def test_a_branch_of_its_own(model, hub):
    push_to_hub(model, "someone/fruit", revision="trial", commit_message="a trial")
    assert [name for name, _ in hub.calls] == ["create_repo", "create_branch", "upload_folder"]
    assert hub.calls[-1][1]["commit_message"] == "a trial"
    assert same(from_pretrained("someone/fruit", revision="trial"), model)
    with pytest.raises(FetchError, match=r"^someone/fruit can't be had: RepositoryNotFoundError: 404 Client"):
        from_pretrained("someone/fruit")


def test_offline_and_out_of_reach(model, hub, monkeypatch):
    expected = (
        r"^someone/other can't be had: LocalEntryNotFoundError: Cannot find the requested files in the disk"
    )
    with pytest.raises(FetchError, match=expected) as caught:
        from_pretrained("someone/other", local_files_only=True)
    assert "\n" not in str(caught.value)

    def refuse(**options):
        raise OSError("no route to host")

    monkeypatch.setattr(hub, "upload_folder", refuse)
    with pytest.raises(FetchError, match=r"^someone/fruit can't be uploaded: OSError: no route to host$"):
        push_to_hub(model, "someone/fruit")


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder ./nowhere/at/all"):
        from_pretrained("./nowhere/at/all")
    with pytest.raises(ModelFileError, match=r"is a folder without a model.safetensors"):
        from_pretrained(tmp_path)
    (tmp_path / "file").write_text("")
    some = nescio.TrainedModel
    with pytest.raises(DataError, match="can't be written to"):
        save_pretrained(SimpleNamespace(save=some.save), tmp_path / "file" / "below")


def test_a_model_that_may_not_be_written_over(model, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text("")
    path.chmod(0o400)
    with pytest.raises(DataError, match=r"model.safetensors can't be written: it is read-only"):
        save_pretrained(model, tmp_path)


def test_a_network_of_your_own_is_given_again(tmp_path):
    module = torch.nn.Linear(2, 2)
    settings = nescio.TrainingSettings(epochs=2, batch_size=8)
    model = nescio.TrainedModel.train(TABLE, network=module, settings=settings)
    save_pretrained(model, tmp_path)
    with pytest.raises(ModelFileError, match="the network was the user's own"):
        from_pretrained(tmp_path)
    assert same(from_pretrained(tmp_path, network=torch.nn.Linear(2, 2)), model)


def test_without_the_package_one_line_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    expected = r"^huggingface_hub is not installed; install it with: pip install 'nescio\[hub\]'$"
    with pytest.raises(MissingExtraError, match=expected):
        from_pretrained("someone/fruit")
    with pytest.raises(MissingExtraError, match=expected):
        push_to_hub(model, "someone/fruit")


def test_it_is_importable_alone():
    code = "import sys; sys.modules['huggingface_hub'] = None; sys.modules['transformers'] = None; "
    code += "import nescio.integrations.hub"
    path = Path(nescio.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(path)})
