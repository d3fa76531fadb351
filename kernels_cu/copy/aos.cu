// copy/aos: one member of every record, from an array of structs.
//
// computes  y[i] = records[i].member[1]
// mapping   thread i of the grid -> record i
// load records 16 sectors/request
// store y 4 sectors/request
// teaches   Lanes are a record apart, so the members nobody asked for are fetched too: 16 sectors a request
//           for records of 16 bytes, 12 for 12 bytes, where the member alone would fill 4. See copy/soa.
// source    CUDA C++ Best Practices Guide, "Strided Accesses"

#ifndef MEMBERS
#define MEMBERS 4
#endif
static_assert(MEMBERS >= 2, "copy/aos: a record needs MEMBERS >= 2, for its second member is read");

struct Record {
    float member[MEMBERS];
};

extern "C" __global__ void copy_aos(const Record* __restrict__ records, float* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = records[i].member[1];
        y[i] = value;
    }
}
