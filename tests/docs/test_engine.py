"""How the pages of tutorials are made, and what becomes of links, formulas and public names."""

import base64
import re
import warnings

import pytest
from tools.docs import api, formulas, outside, requests, tutorials

SCRIPT = """# %% [markdown]
# # A title
#
# What it is
# about.

# %% tags=["parameters"]
count = 3

# %%
import matplotlib.pyplot as plt

print("counted", count)
count * 2

# %%
# !echo from the shell

# %%
plt.title("a line")
plt.plot([1, 2])
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setattr(tutorials, "SCRIPTS", tmp_path)
    (tmp_path / "made.py").write_text(SCRIPT)
    return tmp_path / "made.py"


def test_a_script_becomes_a_page_with_what_it_printed_and_drew(script):
    notebook, names = tutorials.run("made", {"count": 5})
    assert names["count"] == 5
    page = tutorials.page_of("made", notebook)
    assert page.startswith("# A title\n")
    assert "``` { .text .output }\ncounted 5\n```" in page
    assert "``` { .text .output }\n10\n```" in page
    assert "```bash\necho from the shell\n```\n\n``` { .text .output }\nfrom the shell\n```" in page
    assert "![a line](made/1.png)" in page
    assert page.rstrip().endswith("![a line](made/1.png)")  # not the lines that were drawn
    (picture,) = tutorials._pictures(notebook)
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")


def test_a_warning_names_no_folder_of_the_machine():
    before = warnings.formatwarning
    with tutorials._warnings_without_places():
        said = warnings.formatwarning("mind this", UserWarning, "/some/folder/module.py", 7, line=None)
    assert said == "UserWarning: mind this\n"
    assert warnings.formatwarning is before


def test_the_heading_and_the_first_paragraph_are_for_the_gallery(script):
    assert tutorials.title_and_lead("made") == ("A title", "What it is about.")


def test_a_parameter_that_is_not_there(script):
    with pytest.raises(KeyError, match="the parameters have no size"):
        tutorials.run("made", {"size": 5})


def test_a_command_that_fails(script):
    script.write_text(SCRIPT.replace("echo from the shell", "false"))
    with pytest.raises(RuntimeError, match="'false' ended with code 1"):
        tutorials.run("made")


def test_outputs_of_another_script_are_refused(script, tmp_path, monkeypatch):
    monkeypatch.setattr(tutorials, "KEPT", tmp_path)
    notebook, _ = tutorials.run("made")
    (tmp_path / "made.ipynb").write_text(tutorials.nbformat.writes(notebook))
    assert len(tutorials.executed("made").cells) == 5
    script.write_text(SCRIPT + "\n")
    with pytest.raises(SystemExit, match="is not of the present script"):
        tutorials.executed("made")


@pytest.mark.parametrize(
    ("page", "before", "after"),
    [
        ("limits.md", "[r](../results/paper/report.md)", "[r](results/paper/report.md)"),
        ("decisions/0001.md", "[c](../../CONTRIBUTING.md#x)", "[c](../CONTRIBUTING.md#x)"),
        ("CONTRIBUTING.md", "[m](docs/methods.md)", "[m](methods.md)"),
        ("results/paper/report.md", "![f](figures/figure1.png)", "![f](figures/figure1.png)"),
        ("limits.md", "[m](maths.md)", "[m](maths.md)"),
        ("api/losses.md", "[t](../tutorials/own_loop.py)", "[t](../tutorials/own_loop.md)"),
        ("tutorials/serving.md", "[t](which_doubt.py)", "[t](which_doubt.md)"),
        ("limits.md", "[code](../src/nescio/losses.py)", "code"),
        ("limits.md", "[x](../nothing.md)", "[x](../nothing.md)"),  # mkdocs warns of it
        ("limits.md", "[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
    ],
)
def test_links_that_lead_out_of_the_documents(page, before, after):
    assert outside.rewrite(before, page) == after


def test_formulas_need_no_script():
    drawn = formulas.render('a <span class="arithmatex">\\(u &lt; K\\)</span> b')
    assert re.fullmatch(r"a <math .*<mi>u</mi><mo>&#x0003C;</mo><mi>K</mi>.*</math> b", drawn)
    block = formulas.render('<div class="arithmatex">\\[x\\]</div>')
    assert block.startswith('<div class="formula"><math')
    assert 'display="block"' in block


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('<script src="https://cdn.example/x.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/css">', 1),
        ("@import url(https://fonts.example/css);", 1),
        ('<img alt="x" src="https://example.org/a.png">', 1),
        ('<link rel="canonical" href="https://example.org/page">', 0),
        ('<a href="https://pytorch.org">x</a> <script src="../a.js"></script>', 0),
        ('<img src="data:image/png;base64,AA//BB">', 0),
    ],
)
def test_what_a_page_would_fetch_is_found(text, count):
    assert len(requests.requests_of(text)) == count


def test_every_public_name_is_in_the_reference_and_documented():
    assert api.missing_names() == []


def test_a_room_without_a_page_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "PAGES", tmp_path)
    (tmp_path / "some.md").write_text("<!-- api: nescio.opinions -->\n")
    missing = api.missing_names()
    assert "nescio.losses.EvidentialLoss is public and on no page of docs/api" in missing
    assert not [name for name in missing if name.startswith("nescio.opinions.")]


def test_the_pages_name_what_is_exported():
    text = api.expand("<!-- api: nescio.opinions -->")
    assert text.split() == [
        word
        for name in (
            "Categorical",
            "Measure",
            "Opinion",
            "Prediction",
            "fuse",
            "register_measure",
            "MEASURES",
        )
        for word in (":::", f"nescio.opinions.{name}")
    ]
    # A function of the same name as its module, and a module that is imported by its own name.
    assert "::: nescio.metrics.detection.detection\n" in api.expand("<!-- api: nescio.metrics -->")
    assert "::: nescio.metrics.streaming.OODDetection\n" in api.expand(
        "<!-- api: nescio.metrics.streaming -->"
    )
    assert "| [`nescio.fuse`][nescio.opinions.fusion.fuse] |" in api.expand(api.TABLE)
