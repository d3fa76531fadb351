"""What can go wrong with a CUDA context: sticky errors, forks; and which kernel is to blame."""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernellab.errors import ExecutionError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

STICKY = (
    "ILLEGAL_ADDRESS", "IllegalAddress", "MISALIGNED_ADDRESS", "MisalignedAddress", "LAUNCH_FAILED",
    "LaunchFailure", "ILLEGAL_INSTRUCTION", "IllegalInstruction", "ASSERT", "Assert", "HARDWARE_STACK_ERROR",
    "HardwareStackError", "LAUNCH_TIMEOUT", "LaunchTimeout", "CONTEXT_IS_DESTROYED", "ContextIsDestroyed",
    "INVALID_PC", "InvalidPc", "INVALID_ADDRESS_SPACE", "InvalidAddressSpace", "UNKNOWN", "cudaErrorUnknown",
)  # fmt: skip
"""Words in CUDA's errors after which nothing works any more in this process."""

KEPT = 4096
_FOREIGN_ERRORS = (
    ("numba.cuda.cudadrv.driver", "CudaAPIError"),
    ("cuda.core", "CUDAError"),
    ("cuda.core._utils.cuda_utils", "CUDAError"),
)


class Health:
    """Keeps watch over one process's CUDA contexts.

    Work that was queued is remembered until its event has passed: with what it needs (so that memory is not
    given away while a kernel still uses it), and with whose it is (so that an error which shows itself later
    names the first kernel that may have caused it).

    Parameters
    ----------
    cupy : module
    """

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.process = os.getpid()
        self.broken_by = ""
        self._queued: deque[tuple[str, Any, Any]] = deque()

    def check(self) -> None:
        """Refuse to go on in a forked process, or after a sticky error.

        Raises
        ------
        UnavailableError, ExecutionError
        """
        if os.getpid() != self.process:
            raise UnavailableError(
                "gpu: this process was forked after CUDA had started, which CUDA cannot use; start workers "
                "with "
                "multiprocessing.get_context('spawn')"
            )
        if self.broken_by:
            raise ExecutionError(f"gpu: the CUDA context is dead since {self.broken_by}; start a new process")
        with self.naming("gpu"):
            self.prune()

    def hold(self, who: str, what: Any) -> None:
        """Keep `what` until everything that is on the current stream by now is done.

        Parameters
        ----------
        who : str
            The kernel's id.
        what : object
            Arrays that the queued work reads or writes.
        """
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.cupy.cuda.get_current_stream())
        self._queued.append((who, event, what))
        self.prune()

    def prune(self) -> None:
        """Let go of what is done; asks the oldest first, and never waits but for far too long a queue."""
        while self._queued and self._queued[0][1].done:
            self._queued.popleft()
        while len(self._queued) > KEPT:
            self._queued.popleft()[1].synchronize()

    @property
    def held(self) -> int:
        """How many pieces of queued work are not known to be done."""
        return len(self._queued)

    def settle(self) -> None:
        """Wait for all that is held, and let go of it."""
        while self._queued:
            self._queued[0][1].synchronize()
            self._queued.popleft()

    @contextmanager
    def naming(self, who: str) -> Iterator[None]:
        """Say which kernel a CUDA error belongs to; a sticky one ends everything that follows.

        Raises
        ------
        ExecutionError
            In place of CUDA's own error.
        """
        try:
            yield
        except self.errors() as error:
            raise self.blame(who, error) from error

    def blame(self, who: str, error: Exception) -> ExecutionError:
        """Return what to raise in place of CUDA's error; a sticky one ends everything that follows."""
        text = str(error)
        if not any(word in text for word in STICKY):
            return ExecutionError(f"{who}: CUDA says {text}")
        # CUDA tells what a kernel did when somebody next asks, so the oldest that is not done comes first.
        first = self._queued[0][0] if self._queued else who
        seen = "" if first == who else f", seen by {who}"
        self.broken_by = f"{first} failed ({text})"
        return ExecutionError(f"{first}: CUDA says {text}{seen}")

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the types in which CUDA's errors come: CuPy's, and Numba's once it is loaded."""
        cuda = self.cupy.cuda
        found: tuple[type[Exception], ...] = (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)
        for module, name in _FOREIGN_ERRORS:
            kind = getattr(sys.modules.get(module), name, None)
            found += (kind,) if isinstance(kind, type) else ()
        return found
