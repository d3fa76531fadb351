// copy/soa: one member of every record, from a struct of arrays.
//
// computes  y[i] = fields[1][i]
// mapping   thread i of the grid -> record i
// load fields 4 sectors/request
// store y 4 sectors/request
// teaches   Members that are used together by neighbouring threads belong side by side: the same values as
//           copy/aos, a quarter of the sectors.
// source    CUDA C++ Best Practices Guide, "Strided Accesses"

#ifndef MEMBERS
#define MEMBERS 4
#endif
static_assert(MEMBERS >= 2, "copy/soa: a record needs MEMBERS >= 2, for its second member is read");

extern "C" __global__ void copy_soa(const float* __restrict__ fields, float* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = fields[n + i];
        y[i] = value;
    }
}
