"""Problems: look-ups, inputs that a seed repeats, references and costs that can be checked by hand."""

from __future__ import annotations

import pytest

from kernellab import catalog
from kernellab.errors import SpecError
from kernellab.problem import Cost
from kernellab.tensor_lists import base_name, flattened

PROBLEMS = [catalog.problem(name) for name in catalog.PROBLEMS]


def test_cost_adds_up():
    assert Cost(bytes_read=3, bytes_written=4).nbytes == 7


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_a_seed_repeats_its_inputs(problem):
    case = problem.cases[0]
    first, again, other = problem.inputs(case, 1), problem.inputs(case, 1), problem.inputs(case, 2)
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert any(first[name].tobytes() != other[name].tobytes() for name in first)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_inputs_are_what_the_operands_say(problem):
    for case in problem.cases:
        arrays = problem.inputs(case)
        assert set(arrays) == {operand.name for operand in problem.operands if operand.is_input}
        for name, array in flattened(arrays).items():
            operand = problem.operand(base_name(name)).at(case.element)
            assert array.dtype == operand.numpy_dtype
            assert array.ndim == len(operand.shape)
            assert array.flags.c_contiguous


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_case_names_are_unique(problem):
    names = [case.name for case in problem.cases]
    assert len(set(names)) == len(names)


def test_lookups_name_what_there_is():
    copy = catalog.problem("copy")
    assert copy.case("1025 elements").sizes == {"n": 1025}
    assert copy.parameter("stride").default == 8
    with pytest.raises(SpecError, match=r"^copy: there is no case 'huge'; its cases are '64 Ki elements'"):
        copy.case("huge")
