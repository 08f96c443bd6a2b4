"""The house as a whole: every module has its test, and the wheel holds what users need."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "nescio"
TESTS = ROOT / "tests"

# Modules without a test file of their own, and where they are tested instead. To get shorter, never longer.
WITHOUT_A_TEST: dict[str, str] = {}
# Tests that cut across the modules of their folder.
ACROSS_MODULES = {
    "cli/test_commands.py",
    "encoders/test_contract.py",
    "functional/test_accuracy.py",
    "functional/test_propositions.py",
    "inference/test_awkward_inputs.py",
    "methods/test_contract.py",
    "metrics/test_metrics.py",
    "serve/test_awkward_inputs.py",
    "serve/test_page.py",
    "serve/test_page_kinds.py",
}


def modules():
    """Paths below src/nescio, without packages' __init__."""
    return sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if path.name != "__init__.py")


def mirrored(module):
    """The test file of a module: data/_labels.py is tested by data/test_labels.py."""
    return TESTS / module.with_name(f"test_{module.stem.removeprefix('_')}.py")


def test_every_module_has_its_test_file():
    missing = {str(module) for module in modules() if not mirrored(module).is_file()}
    assert missing == WITHOUT_A_TEST.keys()


def test_what_stands_in_for_a_test_is_there():
    for module, instead in WITHOUT_A_TEST.items():
        assert (SOURCE / module).is_file()
        assert (TESTS / instead).is_file()


def test_every_test_file_has_its_module():
    """A test whose module was renamed or removed is found."""
    known = {mirrored(module).relative_to(TESTS).as_posix() for module in modules()}
    known |= ACROSS_MODULES
    unknown = set()
    for folder in {module.parent for module in modules()} - {Path()}:
        for test in (TESTS / folder).glob("test_*.py"):
            name = test.relative_to(TESTS).as_posix()
            if name not in known:
                unknown.add(name)
    assert unknown == set()


@pytest.mark.network
def test_the_wheel_holds_the_page_the_models_and_the_stubs(tmp_path, registry):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        registry(done.stderr)  # flit_core, which builds it, may be out of reach
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("nescio-")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        entry_points = next(name for name in names if name.endswith("entry_points.txt"))
        assert "nescio=nescio.cli.app:main" in packed.read(entry_points).decode().replace(" ", "")
    inside = [path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*") if path.is_file()]
    expected = {name for name in inside if "__pycache__" not in name}
    assert expected <= names
    for needed in ("serve/page/index.html", "__init__.pyi", "data/__init__.pyi", "py.typed"):
        assert f"nescio/{needed}" in names
    assert any(name.endswith(".safetensors") for name in names)


def test_an_import_loads_nothing_but_the_package_itself():
    """So it is quick, whatever the machine does besides; `benchmarks.startup` measures how quick."""
    code = "import sys; before = set(sys.modules); import nescio; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"lazy_loader", "nescio"}
