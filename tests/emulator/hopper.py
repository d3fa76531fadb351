"""What the tests of the asynchronous machine share: device functions, and kernels written for a shape."""

from __future__ import annotations

from functools import lru_cache

from launching import Kernels

PRELUDE = r"""
typedef unsigned long long u64;
struct alignas(64) CUtensorMap { u64 opaque[16]; };
__device__ inline unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ inline void init(u64* bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory");
}
__device__ inline void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
__device__ inline void expect(u64* bar, unsigned nbytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(bar)), "r"(nbytes) : "memory");
}
__device__ inline bool look(u64* bar, unsigned parity) {
    unsigned done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
    return done;
}
__device__ inline void wait(u64* bar, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 0x989680;\n"
                 "@p bra DONE;\nbra AGAIN;\nDONE:\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}
__device__ inline void load_2d(void* to, const CUtensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory");
}
__device__ inline void store_2d(const CUtensorMap* map, int x, int y, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(at(from)), "r"(x), "r"(y) : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ inline void wait_stores() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory");
}
__device__ inline void fence_registers() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ inline void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
template <int N> __device__ inline void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));
}
template <int N> __device__ inline void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));
}
__device__ inline bool elected() {
    unsigned chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen;
}
__device__ inline u64 describe(const void* p, unsigned leading, unsigned stride, unsigned swizzle) {
    return (u64)((at(p) & 0x3FFFF) >> 4) | (u64)((leading & 0x3FFFF) >> 4) << 16
         | (u64)((stride & 0x3FFFF) >> 4) << 32 | (u64)swizzle << 62;
}
"""


def product(n: int, kinds: str, registers: int, *, k: int, tail: str, a_registers: int = 0) -> str:
    """Write `multiply(d, a, b, keeps)` around ``wgmma``; `tail` holds the operands after scale-d."""
    kind = "float" if kinds.startswith("f32") else "unsigned"
    letter = "f" if kind == "float" else "r"
    d = ", ".join(f"%{i}" for i in range(registers))
    outputs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(registers))
    count = registers
    if a_registers:
        a = "{" + ", ".join(f"%{count + i}" for i in range(a_registers)) + "}"
        inputs = ", ".join(f'"r"(a[{i}])' for i in range(a_registers))
        first, count = "const unsigned* a", count + a_registers
    else:
        a, inputs, first, count = f"%{count}", '"l"(a)', "u64 a", count + 1
    return f"""
__device__ inline void multiply({kind}* d, {first}, u64 b, int keeps) {{
    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{count + 1}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k{k}.{kinds} {{{d}}}, {a}, %{count}, p{tail};\\n}}"
        : {outputs} : {inputs}, "l"(b), "r"(keeps) : "memory");
}}
"""


@lru_cache(maxsize=64)
def kernels(text: str) -> Kernels:
    return Kernels(PRELUDE + text, arch="sm_90a")
