import pytest

from kernellab.compile.itanium import demangle


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z1kPf", "k"),
        ("_Z4tileIfLi32EEvPT_", "tile<float, 32>"),
        ("_ZN1a4tileIdLi4EEEvPT_", "a::tile<double, 4>"),
        ("_ZN1a1zEPi", "a::z"),
        ("_Z1tIN1a1SIiEELi2EEvPT_", "t<a::S<int>, 2>"),
        ("_Z1tILb1EEvPf", "t<true>"),
        ("_Z1tILin3EEvPf", "t<-3>"),
        ("_Z1tIPKfEvT_", "t<const float*>"),
        ("_Z1tIJifEEvDpT_", "t<int, float>"),
        ("_ZN12_GLOBAL__N_11kEPf", "(anonymous namespace)::k"),
        ("_ZL1kPf", "k"),
        ("plain", None),
    ],
)
def test_names(symbol, name):
    assert demangle(symbol) == name


def test_what_is_not_understood_keeps_its_base():
    assert demangle("_Z5applyIUlfE_EvT_") == "apply<...>"
