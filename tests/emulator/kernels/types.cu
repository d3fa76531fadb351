// Types and arithmetic: halves, bytes, 64 bits, structs, unions, bit tricks, math functions, printing.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void halves(const __half* x, const __half* y, __half* z, __half2* w) {
    int i = threadIdx.x;
    __half a = x[i], b = y[i];
    z[i] = __hadd(__hmul(a, b), __float2half(0.5f));
    __half2 p = __halves2half2(a, b);
    w[i] = __hfma2(p, p, __float2half2_rn(1.0f));
    if (__hgt(a, b)) z[i] = __hsub(z[i], a);
    z[i + 32] = hexp(a);
    z[i + 64] = hsqrt(__habs(b));
    z[i + 96] = __hmax(a, b);
    z[i + 128] = __int2half_rn(i - 16);
}
extern "C" __global__ void bfloats(const __nv_bfloat16* x, __nv_bfloat16* y, float* z) {
    int i = threadIdx.x;
    __nv_bfloat16 a = x[i];
    y[i] = __hadd(a, __hmul(a, a));
    z[i] = __bfloat162float(a) * 3.0f;
    __nv_bfloat162 p = __bfloat162bfloat162(a);
    p = __hfma2(p, p, p);
    y[i + 32] = p.x;
    y[i + 64] = __float2bfloat16(z[i] + 0.001f);
}
extern "C" __global__ void bytes(const uchar4* x, const char4* y, uchar4* z, int* dot, short2* s) {
    int i = threadIdx.x;
    uchar4 a = x[i];
    char4 b = y[i];
    z[i] = make_uchar4(a.x + b.x, a.y >> 1, a.z * 3, min(255, a.w + 100));
    dot[i] = a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    dot[i + 32] = __dp4a(*(int*)&b, *(int*)&y[31 - i], i);
    s[i] = make_short2(b.x * b.y, (short)(a.x * 300));
}
extern "C" __global__ void integers(const long long* x, const long long* y, long long* z, unsigned long long* u) {
    int i = threadIdx.x;
    long long a = x[i], b = y[i];
    z[i] = a / b;
    z[i + 64] = a % b;
    z[i + 128] = a * b + (a >> 3) - (b << 5);
    z[i + 192] = __mul64hi(a, b);
    u[i] = (unsigned long long)a / (unsigned long long)b;
    u[i + 64] = (unsigned long long)a % (unsigned long long)b;
    u[i + 128] = __umul64hi(a, b);
    u[i + 192] = ((unsigned long long)a << (b & 63)) ^ ((unsigned long long)a >> (a & 63));
}
extern "C" __global__ void integers32(const int* x, const int* y, int* z) {
    int i = threadIdx.x, a = x[i], b = y[i];
    z[i] = a / b;
    z[i + 64] = a % b;
    z[i + 128] = a / 7 + a % 10 - (unsigned)a / 3u + (unsigned)a % 1000u;
    z[i + 192] = __mulhi(a, b);
    z[i + 256] = abs(a) + max(a, b) * min(a, b);
    z[i + 320] = __sad(a, b, 5) + __usad(a, b, 7);
    z[i + 384] = __hadd(a, b) + __rhadd(a, b);
    z[i + 448] = __mul24(a, b);
}
extern "C" __global__ void bits(const unsigned* x, const unsigned* y, unsigned* z) {
    int i = threadIdx.x;
    unsigned a = x[i], b = y[i];
    z[i] = __popc(a);
    z[i + 64] = __clz(a);
    z[i + 128] = __brev(a);
    z[i + 192] = __ffs(a);
    z[i + 256] = __byte_perm(a, b, 0x5214);
    z[i + 320] = __funnelshift_l(a, b, b & 63);
    z[i + 384] = __funnelshift_rc(a, b, b & 63);
    z[i + 448] = __popcll(((unsigned long long)a << 32) | b) + __clzll(a) * 100 + __ffsll((long long)b << 20) * 10000;
    z[i + 512] = (a & ~b) | (a ^ 0x0f0f0f0f) ^ (b << 7) ^ (b >> 3);
    z[i + 576] = __vadd4(a, b);
    z[i + 640] = __vabsdiffu4(a, b);
    z[i + 704] = (unsigned)__brevll(((unsigned long long)a << 32) | b);
}
union Both { float f; unsigned u; unsigned char c[4]; };
struct Fields { unsigned low : 5; int middle : 11; unsigned high : 16; };
extern "C" __global__ void unions(const float* x, unsigned* y, int* z) {
    int i = threadIdx.x;
    Both both;
    both.f = x[i];
    y[i] = both.u;
    both.c[3] ^= 0x80;
    y[i + 32] = __float_as_uint(both.f + 1.0f);
    Fields f;
    f.low = i; f.middle = i * 37 - 600; f.high = i * 5000;
    z[i] = f.low + f.middle * 2 + f.high;
    f.middle += 100;
    z[i + 32] = f.middle;
}
extern "C" __global__ void local_array(const int* x, int* y, int n) {
    int counts[16], i = threadIdx.x;
    for (int k = 0; k < 16; ++k) counts[k] = 0;
    for (int k = 0; k < n; ++k) counts[(x[i * n + k] + i) & 15]++;
    int best = 0;
    for (int k = 1; k < 16; ++k) if (counts[k] > counts[best]) best = k;
    y[i] = best * 100 + counts[best];
    y[i + 32] = counts[(i * 7) & 15];
}
struct Particle { float3 position; float mass; double energy; unsigned char kind; short charge; };
extern "C" __global__ void particles(Particle* p, int n, Particle shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    p[i].position.x += shift.position.x * p[i].mass;
    p[i].position.z -= shift.position.z;
    p[i].energy *= shift.energy;
    p[i].kind ^= shift.kind;
    p[i].charge -= shift.charge;
}
template <typename T> __device__ T clamp_to(T v, T low, T high) { return v < low ? low : v > high ? high : v; }
template <typename T, int N> __global__ void stencil(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T sum = 0;
#pragma unroll
    for (int k = -N; k <= N; ++k) sum += x[clamp_to(i + k, 0, n - 1)];
    y[i] = sum / T(2 * N + 1);
}
extern "C" __global__ void random_numbers(unsigned* y, float* u, unsigned seed) {
    int i = threadIdx.x;
    unsigned s = seed + i * 2654435761u;
    for (int k = 0; k < 10; ++k) { s ^= s << 13; s ^= s >> 17; s ^= s << 5; }
    y[i] = s;
    unsigned c[4] = {(unsigned)i, 1, 2, 3}, k0 = seed, k1 = 77;  // Philox 4x32-10
    for (int r = 0; r < 10; ++r) {
        unsigned h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0];
        unsigned h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
        unsigned n0 = h1 ^ c[1] ^ k0, n2 = h0 ^ c[3] ^ k1;
        c[0] = n0; c[1] = l1; c[2] = n2; c[3] = l0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    y[i + 32] = c[0] ^ c[1] ^ c[2] ^ c[3];
    u[i] = c[0] * 2.3283064e-10f;
}
extern "C" __global__ void functions(const float* x, float* y, int n) {
    int i = threadIdx.x;
    float v = x[i];
    int k = 0;
#define PUT(e) y[n * k++ + i] = (e)
    PUT(sinf(v)); PUT(cosf(v)); PUT(tanf(v)); PUT(expf(v * 0.01f)); PUT(logf(fabsf(v) + 0.001f)); PUT(log2f(fabsf(v) + 1));
    PUT(powf(fabsf(v) + 0.1f, 1.7f)); PUT(erff(v)); PUT(tanhf(v)); PUT(atan2f(v, 3.0f)); PUT(asinf(v / 1e6f));
    PUT(sqrtf(fabsf(v))); PUT(rsqrtf(fabsf(v) + 1)); PUT(cbrtf(v)); PUT(fmodf(v, 3.7f)); PUT(remainderf(v, 3.7f));
    PUT(floorf(v)); PUT(ceilf(v)); PUT(rintf(v)); PUT(truncf(v)); PUT(roundf(v)); PUT(exp2f(v * 0.01f)); PUT(log1pf(fabsf(v)));
    PUT(expm1f(v * 0.001f)); PUT(hypotf(v, 2.0f)); PUT(copysignf(2.0f, v)); PUT(ldexpf(v, 3)); PUT(fdimf(v, 1.0f));
    PUT(tgammaf(fmodf(fabsf(v), 8.0f) + 0.5f)); PUT(lgammaf(fabsf(v) + 0.5f)); PUT(sinhf(v * 0.001f)); PUT(atanhf(v / 1e6f));
    PUT(erfcf(v * 0.01f)); PUT(fmaf(v, v, -v)); PUT(sinpif(v)); PUT(normcdff(v * 0.01f)); PUT(v > 0 ? 1.0f / v : __fdividef(v, 3.0f));
}
extern "C" __global__ void doubles(const double* x, double* y, int n) {
    int i = threadIdx.x;
    double v = x[i];
    int k = 0;
    PUT(sin(v)); PUT(cos(v)); PUT(tan(v)); PUT(exp(v * 0.01)); PUT(log(fabs(v) + 0.001)); PUT(log2(fabs(v) + 1));
    PUT(pow(fabs(v) + 0.1, 1.7)); PUT(erf(v)); PUT(tanh(v)); PUT(atan2(v, 3.0)); PUT(asin(v / 1e6)); PUT(sqrt(fabs(v)));
    PUT(rsqrt(fabs(v) + 1)); PUT(cbrt(v)); PUT(fmod(v, 3.7)); PUT(remainder(v, 3.7)); PUT(floor(v)); PUT(rint(v)); PUT(round(v));
    PUT(tgamma(fmod(fabs(v), 8.0) + 0.5)); PUT(lgamma(fabs(v) + 0.5)); PUT(1.0 / (v + 0.5)); PUT(v / 3.0);
    PUT((double)(float)v); PUT((double)(long long)v); PUT(fma(v, v, -v)); PUT(hypot(v, 2.0)); PUT(expm1(v * 0.001)); PUT(acos(v / 1e6));
}
extern "C" __global__ void conversions(const float* x, int* y, unsigned* u, long long* l, unsigned char* b) {
    int i = threadIdx.x;
    y[i] = (int)x[i];
    y[i + 32] = __float2int_rn(x[i]);
    y[i + 64] = __float2int_ru(x[i]);
    u[i] = (unsigned)fabsf(x[i]);
    l[i] = (long long)(x[i] * 1e6f);
    b[i] = (unsigned char)(int)x[i];
}
extern "C" __global__ void prints(const float* x, int n) {
    int i = threadIdx.x;
    if (i < n) printf("%d: %5.2f|%-6d|%06x|%c|%s|%e|%lld|%%|%u|%5s|%+d|%g|%llx\n", i, x[i], i * 3, 255 + i, 'a' + i,
                      i % 2 ? "odd" : "even", x[i] * 1000.0, -5000000000ll * i, 4000000000u, "ab", i, 0.5, 1ull << 40);
    if (i == 0) printf("plain\n");
}
#include <cassert>
extern "C" __global__ void asserts(const int* x) { assert(x[threadIdx.x] >= 0 && "negative"); }
extern "C" __global__ void allocates(int** out, int n) {
    int* p = new int[n];
    for (int k = 0; k < n; ++k) p[k] = k * threadIdx.x;
    int sum = 0;
    for (int k = 0; k < n; ++k) sum += p[k];
    delete[] p;
    ((int*)out)[threadIdx.x] = sum;
}
__device__ int counter = 5;
__device__ float lookup[4] = {1.5f, -2.0f, 3.25f, 0};
__constant__ int offsets[3] = {10, 20, 30};
__device__ const char* words[2] = {"first", "second"};
extern "C" __global__ void variables(int* y, float* z) {
    int i = threadIdx.x;
    atomicAdd(&counter, i);
    y[i] = offsets[i % 3] + words[i % 2][i % 5];
    z[i] = lookup[i % 4];
    __syncthreads();
    if (i == 0) y[32] = counter;
}
extern "C" __global__ void inline_ptx(const unsigned* x, unsigned* y) {
    unsigned i = threadIdx.x, v, lane, mask, w;
    asm("{ .reg .pred p; .reg .u32 t; setp.gt.u32 p, %1, 100; mov.u32 t, 7; @p add.u32 t, t, %1; @!p mul.lo.u32 t, t, 3; mov.u32 %0, t; }" : "=r"(v) : "r"(x[i]));
    asm volatile("mov.u32 %0, %%laneid; mov.u32 %1, %%lanemask_lt;" : "=r"(lane), "=r"(mask));
    asm("bfe.u32 %0, %1, 3, 5; lop3.b32 %0, %0, %1, %2, 0x96;" : "=r"(w) : "r"(x[i]), "r"(lane));
    y[i] = v; y[i + 32] = lane; y[i + 64] = mask; y[i + 96] = w;
}
