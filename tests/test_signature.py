"""Parameters of a kernel, read off CUDA C text and mangled names; values as the bytes that a kernel reads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernellab.arrays import cast_remedy
from kernellab.c_types import c_dtype, mangled_types, source_types, variable_dtype
from kernellab.errors import ArgumentError, SpecError
from kernellab.signature import Parameter, pack, parameters_of, refine, typed_variables


@pytest.mark.parametrize(
    ("text", "dtype", "is_pointer"),
    [
        ("const float* __restrict__", "f4", True),
        ("float4 *", "f4", True),
        ("const unsigned char", "u1", False),
        ("unsigned long long int", "u8", False),
        ("long long", "i8", False),
        ("size_t", "u8", False),
        ("std::uint16_t*", "u2", True),
        ("unsigned", "u4", False),
        ("double const * const", "f8", True),
        ("bool", "?", False),
        ("signed char", "i1", False),
        ("long unsigned int", "u8", False),
        ("__half*", "f2", True),
        ("float**", "u8", True),
        ("int&", "i4", False),
        ("uchar3*", "u1", True),
        ("float [8][8]", "f4", True),
        ("float [][8]", "f4", True),
        ("float (*)[8]", "f4", True),
        ("const int (*__restrict__)[4]", "i4", True),
        ("float* [4]", "u8", True),
        ("float* (*)[4]", "u8", True),
    ],
)
def test_types_of_c(text, dtype, is_pointer):
    assert c_dtype(text) == (np.dtype(dtype), is_pointer)


def test_types_that_are_not_built_in_are_unknown():
    assert c_dtype("Particle*") == (None, True)
    assert c_dtype("__nv_bfloat16*")[0] == np.dtype(ml_dtypes.bfloat16)


def test_parameters_of_a_text():
    text = """
    // __global__ void f(int wrong) in a comment
    template <int N> __global__ void other(int n) {}
    extern "C" __global__ void __launch_bounds__(256, 2)
    f(const float *__restrict__ x, /* out */ float* y,
      unsigned int n = 3, std::pair<int, float> p, float (*table)[4])
    {}"""
    types = source_types(text, "f")
    assert [" ".join(kind.split()) for kind, _ in types[:3]] == [
        "const float *__restrict__",
        "float*",
        "unsigned int",
    ]
    assert [name for _, name in types[:4]] == ["x", "y", "n", "p"]
    assert types[4] == ("float (*)[4]", "table")
    assert source_types(text, "other") is None  # a template
    assert source_types(text, "nothing") is None


def test_mangled_names():
    assert mangled_types("_Z3addPKfPfi") == ["float const *", "float *", "int"]
    assert mangled_types("_Z1fPfS_S_j") == ["float *", "float *", "float *", "unsigned int"]
    assert mangled_types("_Z3addPA8_fS0_PA4_KiPA2_A3_d") == [
        "float (*)[8]", "float (*)[8]", "int const (*)[4]", "double (*)[2][3]"
    ]  # fmt: skip
    assert mangled_types("plain") is None


def float_parameter(nbytes=4):
    return Parameter("a", nbytes, nbytes, np.dtype(f"f{nbytes}"), False, "float")


def no_array(name, array):
    raise AssertionError("not an array")


@pytest.mark.parametrize("value", [2.0, 0.1, 1 / 3, float("inf"), -0.0])
def test_a_python_float_travels_as_four_bytes(value):
    assert pack("k", float_parameter(), value, no_array) == np.float32(value).tobytes()


def test_an_integer_that_does_not_fit():
    parameter = Parameter("n", 4, 4, np.dtype("i4"), False, "int")
    assert pack("k", parameter, -1, no_array) == b"\xff" * 4
    with pytest.raises(SpecError, match=r"k: n is `int` and holds -2147483648 to 2147483647, got 4294967301"):
        pack("k", parameter, 2**32 + 5, no_array)


def test_a_null_pointer_is_eight_zero_bytes():
    parameter = Parameter("x", 8, 8, np.dtype("f4"), True, "float*")
    assert pack("k", parameter, None, no_array) == bytes(8)


def test_numbers_where_only_the_size_is_known():
    parameter = Parameter("p", 4)
    assert pack("k", parameter, 1.5, no_array) == np.float32(1.5).tobytes()
    assert pack("k", parameter, -2, no_array) == np.int32(-2).tobytes()
    assert pack("k", parameter, np.int32(7), no_array) == np.int32(7).tobytes()


def test_types_of_variables():
    text = "__constant__ float w[3][3];\n__device__ unsigned long long total = 0; __device__ int4* p; int w2;"
    assert variable_dtype(text, "w") == np.dtype("f4")
    assert variable_dtype(text, "total") == np.dtype("u8")
    assert variable_dtype(text, "p") is None
    assert variable_dtype(text, "w2") is None


def test_lists_become_what_the_variable_is():
    text = {"k.cu": "__constant__ float w[3]; __constant__ short s[2];"}
    typed = typed_variables(text, {"w": [1, 2, 3], "s": [4, 5], "other": [1.0]}, "k")
    assert (typed["w"].dtype, typed["s"].dtype, typed["other"]) == (np.dtype("f4"), np.dtype("i2"), [1.0])
    with pytest.raises(ArgumentError, match=r"k: globals\['w'\] has dtype int32, the variable is of float32"):
        typed_variables(text, {"w": np.arange(3, dtype=np.int32)}, "k")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (1.5, ArgumentError, "is `int32`, got the float 1.5; pass an integer"),
        ([1, 2**31], SpecError, "is `int32` and holds -2147483648 to 2147483647, got 2147483648"),
        ([1, [2]], ArgumentError, "is `int32`, got list"),
        ("one", ArgumentError, "is `int32`, got str"),
    ],
)
def test_numbers_that_a_variable_does_not_hold_are_refused(value, error, message):
    with pytest.raises(error, match=rf"^k: globals\['n'\] {message}"):
        typed_variables({"k.cu": "__device__ int n;"}, {"n": value}, "k")


def test_a_parameter_without_a_name_is_called_by_its_place():
    sizes = {"_Z1kIfEvPT__param_1": (8, 8, "b8"), "x": (4, 4, "f32")}
    assert [each.name for each in parameters_of(list(sizes), sizes)] == ["argument 1", "x"]


def test_a_packed_structure_is_told_to_be_padded():
    message = (
        r"v is `Pair` of 16 bytes, got an array of 12 bytes .*; C pads it: make its dtype with align=True"
    )
    with pytest.raises(ArgumentError, match=message):
        pack("k", by_value("Pair", 16), np.zeros(1, "u8,i4"), no_array)


def by_value(text, nbytes):
    (found,) = refine(
        [Parameter("k_param_0", nbytes, 8, None, None if nbytes == 8 else False)], [(text, "v")]
    )
    return found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("float4", np.arange(4, dtype="f4")),
        ("const int2", np.array([1, 5], "i4")),
        ("float3", np.arange(3, dtype="f4")),
        ("uchar4", np.array([1, 2, 3, 4], "u1")),
        ("float4", np.array((1, 2, 3, 4), "f4,f4,f4,f4")),
        ("float2", np.complex64(1 + 2j)),
        ("Pair", np.array([3.0, 4.0])),
        ("Pair", np.frombuffer(bytes(range(16)), "u1")),
    ],
)
def test_a_vector_or_structure_by_value_is_an_array_of_its_bytes(text, value):
    assert pack("k", by_value(text, np.asarray(value).nbytes), value, no_array) == value.tobytes()


@pytest.mark.parametrize(
    ("text", "nbytes", "value", "message"),
    [
        (
            "float4",
            16,
            (1, 2, 3, 4),
            r"k: v is `float4`, got tuple; pass numpy.array\(\[...\], 'float32'\) of 4",
        ),
        ("int2", 8, 1.5, r"k: v is `int2`, got float; pass numpy.array\(\[...\], 'int32'\) of 2"),
        (
            "float4",
            16,
            np.zeros(3, "f4"),
            r"k: v is `float4`, got an array of 12 bytes and dtype float32; pass",
        ),
        (
            "float4",
            16,
            np.zeros(4, "i4"),
            r"k: v is `float4`, got an array of 16 bytes and dtype int32; pass",
        ),
        (
            "Pair",
            16,
            (1, 2.0),
            r"k: v is `Pair` of 16 bytes, got tuple; pass a structured NumPy scalar or an ",
        ),
        ("int", 4, np.zeros(1, "i4"), r"k: v is `int`, got an array of int32; pass a scalar"),
    ],
)
def test_how_to_pass_a_vector_or_a_structure(text, nbytes, value, message):
    with pytest.raises(ArgumentError, match=message):
        pack("k", by_value(text, nbytes), value, no_array)


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "O", "S4", "f4,i4"])
def test_no_conversion_is_advised_that_loses_meaning(dtype):
    parameter = Parameter("x", 8, 8, np.dtype("f4"), True, "float*")
    value = np.zeros(4, dtype)
    if value.dtype.kind == "V":
        assert cast_remedy(value.dtype, "f4") == "pass an array of float32"
        return
    with pytest.raises(ArgumentError, match=r"; pass an array of (float32|numbers)"):
        pack("k", parameter, value, no_array)


@pytest.mark.parametrize(
    ("text", "nbytes", "value", "message"),
    [
        ("int", 4, np.float32(3), r"k: v is `int`, got a float32 scalar; pass numpy\.int32\(\.\.\.\) of it$"),
        (
            "float",
            4,
            np.int32(3),
            r"k: v is `float`, got a int32 scalar; pass numpy\.float32\(\.\.\.\) of it$",
        ),
        (
            "float",
            4,
            np.uint32(3),
            r"k: v is `float`, got a uint32 scalar; pass numpy\.float32\(\.\.\.\) of it$",
        ),
        ("int", 4, np.int64(3), r"of 4 bytes, got a int64 scalar of 8; pass numpy\.int32\(\.\.\.\) of it$"),
    ],
)
def test_a_scalar_of_another_type_has_a_remedy(text, nbytes, value, message):
    with pytest.raises(ArgumentError, match=message):
        pack("k", by_value(text, nbytes), value, no_array)


def test_a_scalar_of_another_size_has_a_remedy_where_no_type_is_known():
    with pytest.raises(ArgumentError, match=r"got a float64 scalar of 8; pass a scalar of 4 bytes$"):
        pack("k", Parameter("v", 4, 4), np.float64(1), no_array)
