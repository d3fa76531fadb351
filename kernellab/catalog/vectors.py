"""Vector access for Numba twins: several words in one load or store, like CUDA C's `float4` and `uint4`."""

from __future__ import annotations

from functools import cache
from typing import Any

from kernellab.problem import dtype_named


@cache
def vector_access(width: int, word: str = "float32") -> tuple[Any, Any]:
    """Return ``load(array, i)`` and ``store(array, i, values)`` for `width` neighbouring words.

    Numba has no vector type that an array can hold, so these two intrinsics write the LLVM load and store.

    Parameters
    ----------
    width : int
        1, 2 or 4.
    word : {"float32", "uint8", "uint16", "uint32", "uint64"}
        What they are taken as, whatever the array holds.

    Returns
    -------
    tuple of intrinsics
        ``load`` gives a tuple of `width` words from flat position ``i`` of a C-contiguous array, ``store``
        takes one. ``i`` counts the array's own elements, and must lie at a multiple of the vector's bytes.
    """
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    bits = 8 * dtype_named(word).itemsize
    part_type = ir.FloatType() if word == "float32" else ir.IntType(bits)
    vector, nbytes = ir.VectorType(part_type, width), width * bits // 8
    lanes = [ir.Constant(ir.IntType(32), lane) for lane in range(width)]

    def pointer(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        position = context.cast(builder, index, index_type, types.intp)
        return builder.bitcast(builder.gep(data, [position]), vector.as_pointer())

    @intrinsic  # type: ignore[untyped-decorator]
    def load(typing: Any, array: Any, index: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source = pointer(context, builder, array, arguments[0], index, arguments[1])
            loaded = builder.load(source, align=nbytes)
            parts = [builder.extract_element(loaded, lane) for lane in lanes]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(getattr(types, word), width)(array, index), emit

    @intrinsic  # type: ignore[untyped-decorator]
    def store(typing: Any, array: Any, index: Any, values: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target = pointer(context, builder, array, arguments[0], index, arguments[1])
            packed = ir.Constant(vector, ir.Undefined)
            for lane, constant in enumerate(lanes):
                part = builder.extract_value(arguments[2], lane)
                packed = builder.insert_element(packed, part, constant)
            builder.store(packed, target, align=nbytes)
            return context.get_dummy_value()

        return types.void(array, index, types.UniTuple(getattr(types, word), width)), emit

    return load, store
