"""What must agree before a release: versions, Pythons, the README, and the files of the service's image."""

import re
from pathlib import Path

import nescio

ROOT = Path(__file__).parent.parent


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    version = nescio.__version__
    assert f'\nversion = "{version}"\n' in read("pyproject.toml")
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert f"\n## [{version}] - " in read("CHANGELOG.md")
    for name in ("deploy/compose.yaml", "deploy/kubernetes.yaml"):
        assert re.findall(r"image: nescio:(\S+)", read(name)) == [version]


def test_the_changelog_has_the_usual_headings():
    text = read("CHANGELOG.md")
    assert text.index("## [Unreleased]") < text.index(f"## [{nescio.__version__}]")
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, flags=re.MULTILINE)) <= kinds


def test_the_readme_is_short_and_its_links_lead_somewhere():
    text = read("README.md")
    assert len(text.splitlines()) <= 120
    for place in re.findall(r"\]\(([^)]+)\)", text):
        if not place.startswith("https://"):
            assert (ROOT / place.partition("#")[0]).exists(), place


def test_every_python_that_is_promised_is_tested():
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', read("pyproject.toml"))
    (listed,) = re.findall(r"python: \[(.*)\]", read(".github/workflows/checks.yml"))
    assert re.findall(r'"(.*?)"', listed) == promised
    assert "ubuntu-latest, macos-latest" in read(".github/workflows/checks.yml")


def test_the_image_is_not_root_and_asks_for_health_where_it_is_answered():
    dockerfile = read("Dockerfile")
    (user,) = re.findall(r"^USER (\d+)$", dockerfile, flags=re.MULTILINE)
    assert int(user) > 0
    assert f"runAsUser: {user}" in read("deploy/kubernetes.yaml")
    routes = read("src/nescio/serve/app.py")
    asked = re.findall(r"127\.0\.0\.1:8000(/\w+)", dockerfile)
    asked += re.findall(r"path: (/\w+z)$", read("deploy/kubernetes.yaml"), flags=re.MULTILINE)
    assert set(asked) == {"/healthz", "/readyz"}
    assert all(f'"{path}"' in routes for path in asked)


def test_the_image_copies_what_it_is_built_from():
    kept = set(re.findall(r"^!(\S+)$", read(".dockerignore"), flags=re.MULTILINE))
    copied = set()
    for line in re.findall(r"^COPY (?!--from)(.*) \S+$", read("Dockerfile"), flags=re.MULTILINE):
        copied |= set(line.split())
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
    project = read("pyproject.toml")
    (readme,) = re.findall(r'^readme = "(.*)"$', project, flags=re.MULTILINE)
    (licenses,) = re.findall(r"^license-files = \[(.*)\]$", project, flags=re.MULTILINE)
    assert copied >= {readme, *re.findall(r'"(.*?)"', licenses)}  # without which no wheel can be built
