"""Device memory: copies in, allocation that frees the pools once, guard bands around a kernel's arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernellab.arrays import ArraySpec, spec_of
from kernellab.errors import OutOfMemoryError
from kernellab.verify import poison_byte, poisoned

if TYPE_CHECKING:
    from kernellab.devices.gpu_health import Health
    from kernellab.plan import Plan

GUARD_BYTES = 4096
"""Before and after every array of a checked run: NaN for floats, so that reading there spoils the answer."""

Result = TypeVar("Result")


class Memory:
    """Memory of CuPy's current device.

    Parameters
    ----------
    cupy : module
    health : Health
        Holds arrays of queued work, which a shortage lets go.
    """

    def __init__(self, cupy: Any, health: Health) -> None:
        self.cupy = cupy
        self.health = health

    def on_device(self, array: Any, *, copy: bool = False) -> Any:
        """Return an array in device memory: the same one if it is there already and `copy` is false."""
        if isinstance(array, self.cupy.ndarray):
            return self.allocate(array.copy) if copy else array
        host = carried(np.asarray(array, order="C"))
        # CuPy reads page-locked memory when the stream gets there, by when the caller may have written to it.
        if host.size and self.cupy.cuda.pinned_memory.is_memory_pinned(host.ctypes.data):
            host = host.copy()
        return self.allocate(lambda: self.cupy.array(host))

    def empty(self, spec: ArraySpec) -> Any:
        """Return unset device memory."""
        return self.allocate(lambda: self.cupy.empty(spec.shape, carrier(spec.dtype)))

    def allocate(self, make: Callable[[], Result]) -> Result:
        """Allocate; when memory is short free the pools once and try again.

        Raises
        ------
        OutOfMemoryError
            If it is still short; says who holds what.
        """
        error_type = self.cupy.cuda.memory.OutOfMemoryError
        try:
            return make()
        except error_type:
            self.health.settle()
            self.free_pools()
        try:
            return make()
        except error_type as error:
            raise OutOfMemoryError(
                f"gpu: out of memory ({error}); {self.holders()}; free arrays or take a smaller size"
            ) from error

    def holders(self) -> str:
        """Say what each pool holds, and what the device has left."""
        free, total = self.cupy.cuda.runtime.memGetInfo()
        pool, pinned = self.cupy.get_default_memory_pool(), self.cupy.get_default_pinned_memory_pool()
        limit = f", its limit is {pool.get_limit()} bytes" if pool.get_limit() else ""
        return (
            f"CuPy's pool holds {pool.used_bytes()} bytes in use and {pool.free_bytes()} free of "
            f"{pool.total_bytes()}{limit}; its page-locked pool has {pinned.n_free_blocks()} blocks free; "
            f"Numba has {_pending()} bytes to give back; the device has {free} of {total} bytes free, "
            f"{total - free} used"
        )

    def free_pools(self) -> None:
        """Give what CuPy and Numba keep for later back to the driver."""
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()
        deallocations = _deallocations()
        if deallocations is not None:
            deallocations.clear()

    def available(self) -> int:
        """Return how many bytes could be allocated now: free on the device, and free in CuPy's pool."""
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        pool = self.cupy.get_default_memory_pool()
        limit = int(pool.get_limit())
        room = int(free) + int(pool.free_bytes())
        return min(room, limit - int(pool.used_bytes())) if limit else room

    # -- guard bands
    def guarded(self, spec: ArraySpec, contents: Any) -> tuple[Any, Any]:
        """Return an array between guard bands, and the raw bytes that hold both.

        Parameters
        ----------
        spec : ArraySpec
        contents : numpy.ndarray or cupy.ndarray
            What it starts with.
        """
        raw = self.allocate(
            lambda: self.cupy.full(_padded(spec.nbytes) + 2 * GUARD_BYTES, poison_byte(spec.dtype), np.uint8)
        )
        inner = raw[GUARD_BYTES : GUARD_BYTES + spec.nbytes]
        array = self.cupy.ndarray(spec.shape, carrier(spec.dtype), memptr=inner.data)
        if spec.size and isinstance(contents, self.cupy.ndarray):
            array[...] = contents.view(carrier(spec.dtype))
        elif spec.size:
            array.set(carried(np.asarray(contents, order="C")))
        return array, raw

    def guard(self, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a plan's buffers between guard bands, outputs poisoned; and the raw bytes that hold both."""
        buffers: dict[str, Any] = {}
        guards: dict[str, Any] = {}
        for name, array in plan.inputs.items():
            spec = spec_of(array)
            buffers[name], guards[name] = self.guarded(ArraySpec(spec.shape, spec.dtype), array)
        for name, spec in {**plan.outputs, **plan.temporaries}.items():
            if name in plan.in_place:
                continue
            is_zeroed = name in plan.zeroed
            start = np.zeros(spec.shape, spec.dtype) if is_zeroed else poisoned(spec.shape, spec.dtype)
            buffers[name], guards[name] = self.guarded(spec, start)
        return buffers, guards

    def damage(self, plan: Plan, buffers: Mapping[str, Any], guards: Mapping[str, Any]) -> str:
        """Say what a run wrote where it must not, or nothing: around an array, or into an input."""
        given = {name: spec_of(array).dtype for name, array in plan.inputs.items()}
        dtypes = {**{n: s.dtype for n, s in {**plan.outputs, **plan.temporaries}.items()}, **given}
        for name, raw in guards.items():
            end = GUARD_BYTES + int(buffers[name].nbytes)
            for where, part in (("before", raw[:GUARD_BYTES]), ("past the end of", raw[end:])):
                damaged = int(self.cupy.count_nonzero(part != poison_byte(dtypes[name])))
                if damaged:
                    return (
                        f"{plan.kernel.id}: {damaged} bytes {where} {name} were overwritten; "
                        "trace it on the emulator, which names the line"
                    )
        for name, array in plan.inputs.items():
            if name not in plan.in_place and self._differs(buffers[name], array):
                return f"{plan.kernel.id}: it wrote into its input {name}; make its pointer const"
        return ""

    def _differs(self, array: Any, given: Any) -> bool:
        if not array.size:
            return False
        if not isinstance(given, self.cupy.ndarray):
            return bool(self.cupy.asnumpy(array).tobytes() != np.asarray(given).tobytes())
        both = (self.cupy.ascontiguousarray(item).reshape(-1).view(np.uint8) for item in (array, given))
        return bool(self.cupy.count_nonzero(next(both) != next(both)))


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which the device holds elements: integers for bfloat16, which CuPy may lack.

    Examples
    --------
    >>> carrier(np.dtype("float32"))
    dtype('float32')
    """
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype


def carried(array: Any) -> Any:
    """Return a host array's bits in the dtype in which the device holds them."""
    return array.view(carrier(array.dtype))


def _deallocations() -> Any:
    """Return what Numba has yet to give back; None where it is not in use."""
    if "numba.cuda" not in sys.modules:  # it holds nothing then, and takes long to import
        return None
    with suppress(Exception):
        from kernellab.compile.numba_cuda import cuda_module

        return cuda_module().current_context().deallocations
    return None


def _pending() -> int:
    return int(getattr(_deallocations(), "_size", 0))


def _padded(nbytes: int) -> int:
    return -(-nbytes // 512) * 512
