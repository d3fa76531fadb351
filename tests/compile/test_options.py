import pytest

from kernellab.compile.options import check_name_expression, normalise_options
from kernellab.errors import SpecError


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["-I", "/a"], ("-I/a",)),
        (["-I /a"], ("-I/a",)),
        (["--include-path=/a"], ("-I/a",)),
        (["-D", "X=1"], ("-DX=1",)),
        (["--define-macro=X=1"], ("-DX=1",)),
        (["-O3", "-lineinfo", "--expt-relaxed-constexpr", "-rdc=false"], ()),
        (["--maxrregcount=32", "--use_fast_math"], ("--maxrregcount=32", "--use_fast_math")),
        (["-std=c++20"], ("-std=c++20",)),
    ],
)
def test_one_spelling(given, wanted):
    assert normalise_options(given) == wanted


def test_relative_folders_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert normalise_options(["-Iinc"]) == (f"-I{tmp_path / 'inc'}",)


@pytest.mark.parametrize("given", ["-DX=1", [""], [3], ["-D"], ["-gencode"], ["-rdc=true"]])
def test_what_is_refused(given):
    with pytest.raises(SpecError, match="option"):
        normalise_options(given)


@pytest.mark.parametrize("given", ["", 3])
def test_a_name_expression_is_a_name(given):
    with pytest.raises(SpecError, match="name_expressions"):
        check_name_expression(given)
