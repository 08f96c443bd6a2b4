import re

import pytest
from tools.release_links import ROOT, main, whole_links, with_urls

REPOSITORY = "https://example.org/owner/nescio"


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").touch()
    (tmp_path / "docs" / "one.png").touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n\n[project.scripts]\na = "b"\n')
    (tmp_path / "README.md").write_text(
        "![a 1\nthat turns](docs/one.png) [the guide](docs/guide.md#start) [here](#map) [there](https://x.org)"
    )
    return tmp_path


def test_links_and_pictures_are_whole_and_others_stay(checkout):
    main(REPOSITORY, "v1.2.3", checkout)
    assert (checkout / "README.md").read_text() == (
        f"![a 1\nthat turns]({REPOSITORY}/raw/v1.2.3/docs/one.png) "
        f"[the guide]({REPOSITORY}/blob/v1.2.3/docs/guide.md#start) [here](#map) [there](https://x.org)"
    )
    project = (checkout / "pyproject.toml").read_text()
    assert f'[project.urls]\nRepository = "{REPOSITORY}"\n' in project
    assert project.endswith('[project.scripts]\na = "b"\n')


@pytest.mark.parametrize(
    ("repository", "tag", "message"),
    [
        ("example.org/owner", "v1.2.3", "the repository must be https://HOST/OWNER/NAME"),
        (REPOSITORY, "v1.2.4", "the tag must be v1.2.3, the version of pyproject.toml, got 'v1.2.4'"),
    ],
)
def test_what_does_not_fit_changes_nothing(checkout, repository, tag, message):
    before = (checkout / "README.md").read_text()
    with pytest.raises(SystemExit, match=re.escape(message)):
        main(repository, tag, checkout)
    assert (checkout / "README.md").read_text() == before


def test_addresses_are_put_in_once(checkout):
    text = with_urls((checkout / "pyproject.toml").read_text(), REPOSITORY)
    with pytest.raises(SystemExit, match="already"):
        with_urls(text, REPOSITORY)


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    with pytest.raises(SystemExit, match=r"links to docs/none.md, which is not there"):
        whole_links("[x](docs/none.md)", REPOSITORY, "v1", tmp_path)


def test_of_our_readme_nothing_relative_is_left():
    text = whole_links((ROOT / "README.md").read_text(encoding="utf-8"), REPOSITORY, "v1", ROOT)
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert len(targets) > 5
    assert all(target.startswith(("https://", "#")) for target in targets)
