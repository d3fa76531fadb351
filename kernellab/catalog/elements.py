"""Elements of 4 or 2 bytes for Numba twins: vectors loaded and stored, computed with as float32.

The counterpart of ``kernels_cu/include/element.cuh``. Numba computes in neither bfloat16 nor (without a
helper library) float16, so twins see arrays of 16-bit elements as uint16: the functions here turn bits into
float32 and back, rounding to nearest, ties to even.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kernellab.problem import dtype_named

WORD_FORMATS = {"float16": "f16", "bfloat16": "bf16"}


def lanes(element: str, nbytes: int = 16) -> int:
    """Return how many elements a vector of so many bytes holds.

    Examples
    --------
    >>> lanes("float32"), lanes("bfloat16"), lanes("float64")
    (4, 8, 2)
    """
    return nbytes // dtype_named(element).itemsize


@cache
def conversions(element: str) -> tuple[Any, Any]:
    """Return ``to_float(stored)`` and ``from_float(value)`` for one element.

    Parameters
    ----------
    element : {"float32", "float16", "bfloat16"}

    Returns
    -------
    tuple of intrinsics
        What an array holds (float32, or uint16 for the bits) to float32, and float32 to that.
    """
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def to_float(typing: Any, stored: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _widened(builder, arguments[0], element)

        return types.float32(types.float32 if element == "float32" else types.uint16), emit

    @intrinsic  # type: ignore[untyped-decorator]
    def from_float(typing: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _narrowed(builder, arguments[0], element)

        return (types.float32 if element == "float32" else types.uint16)(types.float32), emit

    return to_float, from_float


@cache
def vector_access(element: str, nbytes: int = 16) -> tuple[Any, Any]:
    """Return ``load(array, i)`` and ``store(array, i, values)`` for the elements of one vector.

    Parameters
    ----------
    element : {"float32", "float16", "bfloat16"}
    nbytes : {4, 8, 16}
        Bytes of the vector.

    Returns
    -------
    tuple of intrinsics
        ``load`` gives a tuple of ``lanes(element, nbytes)`` float32 from flat position ``i`` of a
        C-contiguous array, ``store`` takes one. ``i`` must be a multiple of that number and the array aligned
        to `nbytes`.
    """
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    words, width = nbytes // 4, lanes(element, nbytes)
    word = ir.FloatType() if element == "float32" else ir.IntType(32)
    vector = ir.VectorType(word, words) if words > 1 else word
    places = [ir.Constant(ir.IntType(32), place) for place in range(words)]

    def pointer(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        position = context.cast(builder, index, index_type, types.intp)
        return builder.bitcast(builder.gep(data, [position]), vector.as_pointer())

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typing: Any, array: Any, index: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source = pointer(context, builder, array, arguments[0], index, arguments[1])
            loaded = builder.load(source, align=nbytes)
            parts = [builder.extract_element(loaded, place) for place in places] if words > 1 else [loaded]
            floats = parts if element == "float32" else _unpacked(builder, parts, element)
            return context.make_tuple(builder, signature.return_type, floats)

        return types.UniTuple(types.float32, width)(array, index), emit

    @intrinsic  # type: ignore[untyped-decorator]
    def store(typing: Any, array: Any, index: Any, values: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = pointer(context, builder, array, arguments[0], index, arguments[1])
            floats = [builder.extract_value(arguments[2], lane) for lane in range(width)]
            parts = floats if element == "float32" else _packed(builder, floats, element)
            packed = parts[0] if words == 1 else ir.Constant(vector, ir.Undefined)
            for part, place in zip(parts, places, strict=True) if words > 1 else ():
                packed = builder.insert_element(packed, part, place)
            builder.store(packed, target, align=nbytes)
            return context.get_dummy_value()

        return types.void(array, index, types.UniTuple(types.float32, width)), emit

    return load, store


def _call(builder: Any, result: Any, text: str, constraints: str, arguments: list[Any]) -> Any:
    from llvmlite import ir

    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(ir.InlineAsm(kind, text, constraints), arguments)


def _widened(builder: Any, stored: Any, element: str) -> Any:
    """Emit one element, as an array holds it, to float32."""
    from llvmlite import ir

    if element == "float32":
        return stored
    if element == "float16":
        return _call(builder, ir.FloatType(), "cvt.f32.f16 $0, $1;", "=f,h", [stored])
    upper = builder.shl(builder.zext(stored, ir.IntType(32)), ir.Constant(ir.IntType(32), 16))
    return builder.bitcast(upper, ir.FloatType())


def _narrowed(builder: Any, value: Any, element: str) -> Any:
    """Emit float32 to one element, as an array holds it."""
    from llvmlite import ir

    if element == "float32":
        return value
    return _call(builder, ir.IntType(16), f"cvt.rn.{WORD_FORMATS[element]}.f32 $0, $1;", "=h,f", [value])


def _unpacked(builder: Any, words: list[Any], element: str) -> list[Any]:
    """Emit 32-bit words to the two float32 that each holds, the lower half first."""
    from llvmlite import ir

    half = ir.Constant(ir.IntType(32), 16)
    bits = [
        builder.trunc(part, ir.IntType(16)) for word in words for part in (word, builder.lshr(word, half))
    ]
    return [_widened(builder, part, element) for part in bits]


def _packed(builder: Any, floats: list[Any], element: str) -> list[Any]:
    """Emit float32 to 32-bit words of two elements each."""
    from llvmlite import ir

    text = f"cvt.rn.{WORD_FORMATS[element]}x2.f32 $0, $1, $2;"
    pairs = zip(floats[1::2], floats[::2], strict=True)
    return [_call(builder, ir.IntType(32), text, "=r,f,f", list(pair)) for pair in pairs]


@cache
def register_access(element: str, nbytes: int = 16) -> tuple[Any, Any]:
    """Return ``fill(kept, at, array, i)`` and ``drain(array, i, kept, at)``: vectors by way of a local array.

    A ``cuda.local.array`` of float32 whose indices are all known once loops are unrolled lives in registers:
    so a twin keeps several vectors in flight, as an array in CUDA C does.

    Parameters
    ----------
    element : {"float32", "float16", "bfloat16"}
    nbytes : {4, 8, 16}
        Bytes of a vector.

    Returns
    -------
    tuple of intrinsics
        ``fill`` loads the vector at flat position ``i`` of `array` into ``kept[at:]``, ``drain`` stores it
        from there.
    """
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    load, store = vector_access(element, nbytes)
    width = lanes(element, nbytes)
    places = [ir.Constant(ir.IntType(64), lane) for lane in range(width)]

    def start(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [context.cast(builder, index, index_type, types.intp)])

    @intrinsic  # type: ignore[untyped-decorator]
    def fill(typing: Any, kept: Any, at: Any, array: Any, index: Any) -> Any:
        signature_of_load, emit_load = load._defn(typing, array, index)

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = emit_load(context, builder, signature_of_load, arguments[2:])
            first = start(context, builder, kept, arguments[0], at, arguments[1])
            for lane, place in enumerate(places):
                builder.store(builder.extract_value(values, lane), builder.gep(first, [place]))
            return context.get_dummy_value()

        return types.void(kept, at, array, index), emit

    @intrinsic  # type: ignore[untyped-decorator]
    def drain(typing: Any, array: Any, index: Any, kept: Any, at: Any) -> Any:
        floats = types.UniTuple(types.float32, width)
        signature_of_store, emit_store = store._defn(typing, array, index, floats)

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = start(context, builder, kept, arguments[2], at, arguments[3])
            values = [builder.load(builder.gep(first, [place])) for place in places]
            packed = context.make_tuple(builder, floats, values)
            return emit_store(context, builder, signature_of_store, [*arguments[:2], packed])

        return types.void(array, index, kept, at), emit

    return fill, drain
