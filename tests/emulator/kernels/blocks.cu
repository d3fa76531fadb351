// Whole blocks at work: tiles, reductions, scans, sorts, histograms.
#define TILE 16

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[TILE][TILE + 1], bs[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < (k + TILE - 1) / TILE; ++t) {
        int i = t * TILE + threadIdx.x, j = t * TILE + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && i < k ? a[row * k + i] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = j < k && column < n ? b[j * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE; ++e) sum += as[threadIdx.y][e] * bs[e][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void sum_shared(const int* x, int* y, int n) {
    extern __shared__ int buffer[];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    buffer[threadIdx.x] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step >>= 1) {
        if (threadIdx.x < step) buffer[threadIdx.x] += buffer[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(y, buffer[0]);
}

__inline__ __device__ float warp_sum(float value) {
    for (int offset = 16; offset; offset >>= 1) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

extern "C" __global__ void sum_shuffle(const float* x, float* y, int n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < (blockDim.x + 31) / 32 ? partial[threadIdx.x] : 0.0f;
        sum = warp_sum(sum);
        if (threadIdx.x == 0) y[blockIdx.x] = sum;
    }
}

extern "C" __global__ void sum_volatile(const int* x, int* y) {  // the last warp without a barrier, as of old
    __shared__ int buffer[128];
    unsigned t = threadIdx.x;
    buffer[t] = x[blockIdx.x * 256 + t] + x[blockIdx.x * 256 + t + 128];
    __syncthreads();
    if (t < 64) buffer[t] += buffer[t + 64];
    __syncthreads();
    if (t < 32) {
        volatile int* v = buffer;
        v[t] += v[t + 32]; v[t] += v[t + 16]; v[t] += v[t + 8]; v[t] += v[t + 4]; v[t] += v[t + 2]; v[t] += v[t + 1];
    }
    if (t == 0) y[blockIdx.x] = buffer[0];
}

extern "C" __global__ void compact_by_hand(const int* x, int* y, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    bool keep = i < n && x[i] % 3 == 0;
    unsigned ballot = __ballot_sync(0xffffffff, keep);
    int start = 0;
    if (lane == 0 && ballot) start = atomicAdd(count, __popc(ballot));
    start = __shfl_sync(0xffffffff, start, 0);
    if (keep) y[start + __popc(ballot & ((1u << lane) - 1))] = x[i];
}

extern "C" __global__ void scan_hillis(const int* x, int* y, int n) {
    extern __shared__ int two[];
    int t = threadIdx.x, out = 0;
    two[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        out = 1 - out;
        int from = (1 - out) * blockDim.x, to = out * blockDim.x;
        two[to + t] = t >= step ? two[from + t] + two[from + t - step] : two[from + t];
        __syncthreads();
    }
    if (t < n) y[t] = two[out * blockDim.x + t];
}

extern "C" __global__ void scan_blelloch(const int* x, int* y, int n) {  // exclusive, n = 2 * blockDim.x
    extern __shared__ int temp[];
    int t = threadIdx.x, offset = 1;
    temp[2 * t] = x[2 * t];
    temp[2 * t + 1] = x[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) temp[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1, hold = temp[a];
            temp[a] = temp[b];
            temp[b] += hold;
        }
    }
    __syncthreads();
    y[2 * t] = temp[2 * t];
    y[2 * t + 1] = temp[2 * t + 1];
}

// Decoupled look-back: a block waits for the sums of the blocks before it.
extern "C" __global__ void scan_lookback(const int* x, int* y, unsigned long long* state, unsigned* ticket, int n) {
    __shared__ int sums[32];
    __shared__ int before;
    __shared__ unsigned me;
    if (threadIdx.x == 0) me = atomicAdd(ticket, 1u);
    __syncthreads();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = me * blockDim.x + threadIdx.x;
    int value = i < n ? x[i] : 0;
    for (int k = 1; k < 32; k *= 2) {
        int other = __shfl_up_sync(0xffffffff, value, k);
        if (lane >= k) value += other;
    }
    if (lane == 31) sums[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int total = lane < blockDim.x / 32 ? sums[lane] : 0;
        for (int k = 1; k < 32; k *= 2) {
            int other = __shfl_up_sync(0xffffffff, total, k);
            if (lane >= k) total += other;
        }
        sums[lane] = total;
        int all = __shfl_sync(0xffffffff, total, 31);
        if (lane == 0) {
            volatile unsigned long long* v = state;
            v[me] = (1ull << 62) | (unsigned)all;  // 1: the block's own sum
            __threadfence();
            int sum = 0;
            for (int j = (int)me - 1; j >= 0;) {
                unsigned long long found = v[j];
                if (found >> 62 == 0) continue;
                sum += (int)(unsigned)found;
                if (found >> 63) break;
                --j;
            }
            v[me] = (1ull << 63) | (unsigned)(sum + all);  // 2: with all before it
            before = sum;
        }
    }
    __syncthreads();
    if (i < n) y[i] = value + before + (warp ? sums[warp - 1] : 0);
}

extern "C" __global__ void histogram(const unsigned char* x, int* bins, int n) {
    __shared__ int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[x[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i]) atomicAdd(&bins[i], local[i]);
}

extern "C" __global__ void bitonic(int* x) {
    extern __shared__ int keys[];
    int t = threadIdx.x;
    keys[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size <<= 1)
        for (int stride = size >> 1; stride; stride >>= 1) {
            int other = t ^ stride;
            if (other > t) {
                bool up = (t & size) == 0;
                if ((keys[t] > keys[other]) == up) { int hold = keys[t]; keys[t] = keys[other]; keys[other] = hold; }
            }
            __syncthreads();
        }
    x[blockIdx.x * blockDim.x + t] = keys[t];
}

extern "C" __global__ void radix_pass(const unsigned* x, unsigned* y, int shift) {  // one bit of a stable split
    __shared__ int zeros[256];
    int t = threadIdx.x;
    unsigned key = x[t];
    int bit = (key >> shift) & 1;
    int ones_before = __syncthreads_count(bit);
    zeros[t] = 1 - bit;
    __syncthreads();
    for (int k = 1; k < blockDim.x; k *= 2) {
        int add = t >= k ? zeros[t - k] : 0;
        __syncthreads();
        zeros[t] += add;
        __syncthreads();
    }
    int total = blockDim.x - ones_before;
    int place = bit ? total + t - zeros[t] : zeros[t] - 1;
    y[place] = key;
}

__constant__ float weights[5];
extern "C" __global__ void convolve(const float* x, float* y, int n) {
    __shared__ float tile[128 + 4];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = threadIdx.x; k < blockDim.x + 4; k += blockDim.x) {
        int j = blockIdx.x * blockDim.x + k - 2;
        tile[k] = j >= 0 && j < n ? x[j] : 0.0f;
    }
    __syncthreads();
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < 5; ++k) sum += weights[k] * tile[threadIdx.x + k];
    y[i] = sum;
}

extern "C" __global__ void softmax(const float* x, float* y, int n) {
    __shared__ float part[32];
    const float* row = x + (size_t)blockIdx.x * n;
    float most = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, row[i]);
    for (int k = 16; k; k /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, k));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
    __syncthreads();
    most = part[0];
    for (int k = 1; k < blockDim.x / 32; ++k) most = fmaxf(most, part[k]);
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - most);
    for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < blockDim.x / 32; ++k) sum += part[k];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = expf(row[i] - most) / sum;
}

extern "C" __global__ void votes(const int* x, int* y) {
    int p = x[threadIdx.x];
    y[threadIdx.x] = __syncthreads_count(p) * 4 + __syncthreads_and(p) * 2 + __syncthreads_or(p);
}

extern "C" __global__ void early_return(const int* x, int* y, int n) {
    __shared__ int total;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) total = 0;
    if (i >= n) return;
    __syncthreads();
    atomicAdd(&total, x[i]);
    __syncthreads();
    y[i] = total;
}

// Warps 0-1 produce, warps 2-3 consume, over two named barriers.
extern "C" __global__ void producer_consumer(const int* x, int* y, int rounds) {
    __shared__ int box[64];
    int t = threadIdx.x;
    if (t < 64) {
        for (int r = 0; r < rounds; ++r) {
            asm volatile("bar.sync 2, 128;" ::: "memory");  // empty
            box[t] = x[r * 64 + t] * 2;
            asm volatile("bar.arrive 1, 128;" ::: "memory");  // full
        }
    } else {
        int sum = 0;
        for (int r = 0; r < rounds; ++r) {
            asm volatile("bar.arrive 2, 128;" ::: "memory");
            asm volatile("bar.sync 1, 128;" ::: "memory");
            sum += box[127 - t];
        }
        y[t - 64] = sum;
    }
}

extern "C" __global__ void named_pairs(int* y) {  // each pair of warps has a barrier of its own
    __shared__ int box[256];
    int t = threadIdx.x, pair = t / 64;
    box[t] = t;
    asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
    y[t] = box[pair * 64 + 63 - t % 64];
}

extern "C" __global__ void several_arrays(float* y, int n) {  // dynamic shared memory, carved by hand
    extern __shared__ __align__(16) unsigned char raw[];
    float* f = reinterpret_cast<float*>(raw);
    double* d = reinterpret_cast<double*>(f + n);
    short* s = reinterpret_cast<short*>(d + n);
    int t = threadIdx.x;
    f[t] = t + 0.5f; d[t] = t * 2.0; s[t] = (short)-t;
    __syncthreads();
    int other = n - 1 - t;
    y[t] = f[other] + (float)d[other] + s[other];
}

extern "C" __global__ void nbody(const float4* body, float4* force, int n) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = body[i];
    float fx = 0, fy = 0, fz = 0;
    for (int j = 0; j < n; j += blockDim.x) {
        tile[threadIdx.x] = body[j + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < blockDim.x; ++k) {
            float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), f = tile[k].w * inverse * inverse * inverse;
            fx += dx * f; fy += dy * f; fz += dz * f;
        }
        __syncthreads();
    }
    force[i] = make_float4(fx, fy, fz, 0);
}

extern "C" __global__ void last_block(const float* x, float* partial, float* y, unsigned* done, int n) {
    __shared__ float sums[64];
    __shared__ bool is_last;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sums[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int k = 32; k; k >>= 1) { if (t < k) sums[t] += sums[t + k]; __syncthreads(); }
    if (t == 0) {
        partial[blockIdx.x] = sums[0];
        __threadfence();
        is_last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && t == 0) {
        float total = 0;
        for (int k = 0; k < gridDim.x; ++k) total += ((volatile float*)partial)[k];
        *y = total;
    }
}

extern "C" __global__ void grid_barrier(int* x, volatile int* arrived) {  // all blocks wait for all blocks
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int round = 1; round <= 3; ++round) {
        int value = ((volatile int*)x)[(round & 1 ? 0 : n) + (i + 1) % n];
        ((volatile int*)x)[(round & 1 ? n : 0) + i] = value + 1;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd((int*)arrived, 1);
            while (*arrived < round * (int)gridDim.x) {}
        }
        __syncthreads();
    }
}
