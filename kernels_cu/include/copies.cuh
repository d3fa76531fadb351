// Copies from global to shared memory that run while the thread goes on (cp.async, sm_80).
//
// A thread closes what it has asked for since the last time into a group, and waits until only so many groups are
// pending; a barrier then shows everybody's copies to everybody.
#ifndef KERNELLAB_COPIES_CUH
#define KERNELLAB_COPIES_CUH

__device__ __forceinline__ unsigned shared_place(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// Sixteen bytes past the L1, or as many zeros: then nothing is read.
__device__ __forceinline__ void copy_vector(unsigned to, const void* from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void close_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

#endif
