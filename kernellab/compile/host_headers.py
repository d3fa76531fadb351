"""Small stand-ins for the host headers that kernel files include and NVRTC does not have.

Three kinds: our own few lines (fixed-width integers, limits, ``std::min``, ``std::sqrt``); headers of the
C++ library that CCCL has under ``cuda/std``; and headers that only host code needs, which are empty here,
so that a file which merely includes them compiles and one which uses them fails by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_GUARD = "#pragma once\n"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# The same types as CCCL's under NVRTC: int64_t is long long there.
_STDINT = _GUARD + "".join(
    f"typedef {'un' if sign == 'u' else ''}signed {base} {sign}int{kind}{bits}_t;\n"
    for kind in ("", "_least", "_fast")
    for bits, base in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign in ("", "u")
    if kind != "_fast" or bits in (8, 64)
)
_STDINT += """
#if defined(_WIN32)
typedef int int_fast16_t; typedef unsigned int uint_fast16_t;
#else
typedef short int_fast16_t; typedef unsigned short uint_fast16_t;
#endif
typedef int int_fast32_t; typedef unsigned int uint_fast32_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
typedef long long intmax_t; typedef unsigned long long uintmax_t;
"""

_LIMITS = (
    _GUARD
    + """
#ifndef CHAR_BIT
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295U
#define LONG_MAX (sizeof(long) == 8 ? (long)9223372036854775807LL : (long)2147483647)
#define LONG_MIN (-LONG_MAX - 1L)
#define ULONG_MAX (~0UL)
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define ULLONG_MAX 18446744073709551615ULL
#endif
"""
)

_INT_LIMITS = """
#ifndef INT8_MAX
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295U
#define INT64_MAX 9223372036854775807LL
#define INT64_MIN (-9223372036854775807LL - 1LL)
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX UINT64_MAX
#endif
"""

_FLOAT = (
    _GUARD
    + """
#ifndef FLT_MAX
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN 1.17549435082228750796873653722224568e-38F
#define FLT_MAX 3.40282346638528859811704183484516925e+38F
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7F
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#endif
"""
)

_CONSTANTS = {
    "M_E": "2.7182818284590452354",
    "M_LOG2E": "1.4426950408889634074",
    "M_LOG10E": "0.43429448190325182765",
    "M_LN2": "0.69314718055994530942",
    "M_LN10": "2.30258509299404568402",
    "M_PI": "3.14159265358979323846",
    "M_PI_2": "1.57079632679489661923",
    "M_PI_4": "0.78539816339744830962",
    "M_1_PI": "0.31830988618379067154",
    "M_2_PI": "0.63661977236758134308",
    "M_2_SQRTPI": "1.12837916709551257390",
    "M_SQRT2": "1.41421356237309504880",
    "M_SQRT1_2": "0.70710678118654752440",
    "INFINITY": "__int_as_float(0x7f800000)",
    "HUGE_VALF": "__int_as_float(0x7f800000)",
    "HUGE_VAL": "__longlong_as_double(0x7ff0000000000000LL)",
    "NAN": "__int_as_float(0x7fffffff)",
}
_MATH = _GUARD + "".join(
    f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in _CONSTANTS.items()
)

_UNARY = _words(
    """
    acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma log
    log10 log1p
    log2 logb nearbyint rint round sin sinh sqrt tan tanh tgamma trunc
    """
)
_BINARY = _words("atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder")


def _std_math() -> str:
    lines = ["namespace std {"]
    for name in _UNARY:
        lines.append(f"__device__ __forceinline__ float {name}(float x) {{ return ::{name}f(x); }}")
        lines.append(f"__device__ __forceinline__ double {name}(double x) {{ return ::{name}(x); }}")
    for name in _BINARY:
        lines.append(
            f"__device__ __forceinline__ float {name}(float x, float y) {{ return ::{name}f(x, y); }}"
        )
        lines.append(
            f"__device__ __forceinline__ double {name}(double x, double y) {{ return ::{name}(x, y); }}"
        )
    lines += [
        "__device__ __forceinline__ float fma(float x, float y, float z) { return ::fmaf(x, y, z); }",
        "__device__ __forceinline__ double fma(double x, double y, double z) { return ::fma(x, y, z); }",
        "__device__ __forceinline__ float pow(float x, int n) { return ::powf(x, (float)n); }",
        "__device__ __forceinline__ double pow(double x, int n) { return ::pow(x, (double)n); }",
        *(
            f"__device__ __forceinline__ bool {name}({kind} x) {{ return ::{name}(x); }}"
            for name in ("isnan", "isinf", "isfinite", "signbit")
            for kind in ("float", "double")
        ),
        "}",
    ]
    return "\n".join(lines) + "\n"


_ABS = """
#ifndef KERNELLAB_STD_ABS
#define KERNELLAB_STD_ABS
namespace std {
__device__ __forceinline__ int abs(int x) { return x < 0 ? -x : x; }
__device__ __forceinline__ long abs(long x) { return x < 0 ? -x : x; }
__device__ __forceinline__ long long abs(long long x) { return x < 0 ? -x : x; }
__device__ __forceinline__ float abs(float x) { return ::fabsf(x); }
__device__ __forceinline__ double abs(double x) { return ::fabs(x); }
}
#endif
"""

_ALGORITHM = (
    _GUARD
    + """
namespace std {
template <typename T> __host__ __device__ constexpr const T& min(const T& a, const T& b) {
    return b < a ? b : a;
}
template <typename T> __host__ __device__ constexpr const T& max(const T& a, const T& b) {
    return a < b ? b : a;
}
template <typename T> __host__ __device__ constexpr const T& clamp(const T& x, const T& low, const T& high) {
    return x < low ? low : high < x ? high : x;
}
#ifndef KERNELLAB_STD_SWAP
#define KERNELLAB_STD_SWAP
template <typename T> __host__ __device__ void swap(T& a, T& b) { T held = a; a = b; b = held; }
#endif
}
"""
)

_STDDEF = _GUARD + "#ifndef NULL\n#define NULL 0\n#endif\ntypedef decltype(nullptr) kernellab_nullptr_t;\n"
_OWN = {
    "stdint.h": _STDINT + _INT_LIMITS,
    "limits.h": _LIMITS,
    "float.h": _FLOAT,
    "math.h": _MATH,
    "stddef.h": _STDDEF,
    "stdlib.h": _GUARD + "#include <stddef.h>\n",
    "stdio.h": _GUARD,
    "string.h": _GUARD,
    "assert.h": _GUARD + "#define static_assert static_assert\n",
    "stdbool.h": _GUARD,
    "time.h": _GUARD,
    "inttypes.h": _GUARD + "#include <stdint.h>\n",
    "algorithm": _ALGORITHM,
}


def _std_names(header: str, names: str) -> str:
    using = " ".join(f"using ::{name};" for name in names.split())
    return f"{_GUARD}#include <{header}>\nnamespace std {{ {using} }}\n"


_FIXED = " ".join(
    f"{sign}int{kind}{bits}_t"
    for kind in ("", "_least", "_fast")
    for bits in (8, 16, 32, 64)
    for sign in ("", "u")
)
_OWN |= {
    "cstdint": _std_names("stdint.h", _FIXED + " intptr_t uintptr_t intmax_t uintmax_t"),
    "cinttypes": _GUARD + "#include <cstdint>\n",
    "climits": _GUARD + "#include <limits.h>\n",
    "cfloat": _GUARD + "#include <float.h>\n",
    "cmath": _GUARD + "#include <math.h>\n" + _ABS + _std_math(),
    "cstddef": _std_names("stddef.h", "size_t ptrdiff_t"),
    "cstdlib": _std_names("stdlib.h", "size_t") + _ABS,
    "cstdio": _std_names("stdio.h", "printf"),
    "cstring": _std_names("string.h", "memcpy memset size_t"),
    "cassert": _GUARD + "#include <assert.h>\n",
    "ctime": _std_names("time.h", "clock_t"),
}

_CCCL = _words(
    """
    array bit complex concepts functional initializer_list iterator limits numeric optional ratio span
    string_view
    tuple type_traits utility variant
    """
)
# Declared and never defined: enough for headers that offer operators on streams.
_STREAMS = """
#ifndef KERNELLAB_STD_STREAMS
#define KERNELLAB_STD_STREAMS
namespace std {
template <typename C> struct char_traits;
template <typename C, typename T = char_traits<C>> class basic_ostream;
template <typename C, typename T = char_traits<C>> class basic_istream;
typedef basic_ostream<char> ostream;
typedef basic_istream<char> istream;
}
#endif
"""
_EMPTY = _words(
    """
    atomic bitset cerrno chrono condition_variable csignal cstdarg deque errno.h exception filesystem
    future getopt.h
    list locale map memory mutex new omp.h queue random regex set signal.h stack stdarg.h stdexcept string
    sys/stat.h sys/time.h thread typeinfo unistd.h unordered_map unordered_set valarray vector
    cublas.h cublasLt.h cublas_v2.h cuda_profiler_api.h cudnn.h cufft.h curand.h cusparse.h helper_cuda.h
    helper_functions.h helper_string.h helper_timer.h nvToolsExt.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp
    thrust/device_vector.h thrust/host_vector.h
    """
)
_STREAM_HEADERS = _words("fstream iomanip iosfwd iostream istream ostream sstream")

# CCCL refuses its own umbrella header under NVRTC: what kernels use of it.
_CUB = _GUARD + "".join(
    f"#include <cub/{path}.cuh>\n"
    for path in _words(
        """
        block/block_adjacent_difference block/block_discontinuity block/block_exchange block/block_histogram
        block/block_load block/block_merge_sort block/block_radix_rank block/block_radix_sort
        block/block_reduce
        block/block_scan block/block_store thread/thread_load thread/thread_store warp/warp_exchange
        warp/warp_load
        warp/warp_merge_sort warp/warp_reduce warp/warp_scan warp/warp_store
        """
    )
)

PRELUDE = "kernellab_prelude.h"
_UNIX_TYPES = "typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned long ulong;\n"
HOST_ONLY = frozenset((*_EMPTY, *_STREAM_HEADERS))


def built_in_headers(hidden: Iterable[str] = ()) -> dict[str, str]:
    """The stand-ins by the name they are included with.

    Parameters
    ----------
    hidden : iterable of str
        Names that the user's own files provide: those win.

    Returns
    -------
    dict of str to str
    """
    headers = dict(_OWN)
    headers |= {
        name: _GUARD + f"#include <cuda/std/{name}>\nnamespace std {{ using namespace ::cuda::std; }}\n"
        for name in _CCCL
    }
    headers |= dict.fromkeys(_EMPTY, _GUARD) | dict.fromkeys(_STREAM_HEADERS, _GUARD + _STREAMS)
    headers["cub/cub.cuh"] = _CUB
    names = ("cstdint", "climits", "cfloat", "cmath", "cstddef", "cstdlib", "algorithm", "iosfwd")
    headers[PRELUDE] = _GUARD + "".join(f"#include <{name}>\n" for name in names) + _UNIX_TYPES
    for name in hidden:
        headers.pop(name, None)
    return headers


def wants_prelude(log: str) -> bool:
    """Whether a log misses a name that nvcc's implicit host headers would have brought.

    Examples
    --------
    >>> wants_prelude('k.cu(3): error: identifier "uint32_t" is undefined')
    True
    >>> wants_prelude('k.cu(3): error: identifier "tiel" is undefined')
    False
    """
    names = set(re.findall(r'(?:identifier|member) "(\w+)"', log))
    known = set(_CONSTANTS) | set(_UNARY) | set(_BINARY) | set(_FIXED.split())
    known |= set(re.findall(r"#define (\w+)", _LIMITS + _INT_LIMITS + _FLOAT))
    known |= set(
        _words(
            "NULL abs basic_ostream clamp fma intmax_t intptr_t isfinite isinf isnan max min "
            "ptrdiff_t size_t swap uint ulong ushort uintmax_t uintptr_t"
        )
    )
    return bool(names & known)
