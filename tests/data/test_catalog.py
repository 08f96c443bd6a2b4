import subprocess
import sys

import pytest

from nescio._fetch.formats import CIFAR_ROW
from nescio._kinds import InputKind
from nescio.data._catalog import ENTRIES, GENERATED, glyph_classes, in_catalog

IMAGES = {name: entry for name, entry in ENTRIES.items() if entry.kind == InputKind.IMAGES}


@pytest.mark.parametrize("entry", IMAGES.values(), ids=IMAGES.keys())
def test_the_count_is_that_of_the_files(entry):
    if entry.layout == "cifar":
        assert entry.size == entry.count * CIFAR_ROW
    else:
        labels = [file.size - 8 for file in entry.files if "labels" in file.name]
        assert entry.count == sum(labels)
        assert entry.size == sum(8 + count + 16 + 784 * count for count in labels)


def test_all_that_has_a_name_is_known_by_it():
    assert all(in_catalog(name) for name in [*ENTRIES, *(each.name for each in GENERATED), "glyphs-20"])
    assert not any(in_catalog(name) for name in ["./digits", "glyphs-", "imagenet", ""])
    assert (glyph_classes("glyphs-20"), glyph_classes("letters")) == (20, None)


def test_what_is_made_of_another_set_names_it():
    assert {each.needs for each in GENERATED} - {""} <= ENTRIES.keys()


def test_the_catalog_does_not_wait_for_torch():
    code = "import sys, nescio.data._catalog, nescio._fetch.store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_kind_of_data_is_there():
    assert {entry.kind for entry in ENTRIES.values()} == set(InputKind)
    (out_of_scope,) = [each for each in GENERATED if each.name == "clinc150-oos"]
    assert out_of_scope.kind == InputKind.TEXTS
