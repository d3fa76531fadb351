// Control flow: loops, switches, calls, recursion, locks.

extern "C" __global__ void mandelbrot(int* y, int width, int height, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= width || j >= height) return;
    double cr = -2.0 + 3.0 * i / width, ci = -1.5 + 3.0 * j / height, zr = 0, zi = 0;
    int n = 0;
    while (true) {
        double zr2 = zr * zr, zi2 = zi * zi;
        if (zr2 + zi2 > 4.0) break;
        if (++n == limit) break;
        zi = 2 * zr * zi + ci;
        zr = zr2 - zi2 + cr;
    }
    y[j * width + i] = n;
}

extern "C" __global__ void collatz(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = x[i];
    int steps = 0, skipped = 0;
    for (int k = 0; k < 1000; ++k) {
        if (v == 1) break;
        if (k % 7 == 3) { ++skipped; continue; }
        v = v & 1 ? 3 * v + 1 : v / 2;
        ++steps;
    }
    y[i] = steps * 1000 + skipped;
}

extern "C" __global__ void switches(const int* x, int* y) {
    int i = threadIdx.x, v = x[i];
    switch (v) {
        case 0: v = 100; break;
        case 1: v = i * 3;  // falls through
        case 2: v += 7; break;
        case 3: case 4: v = -v; break;
        case 5: for (int k = 0; k < i; ++k) v += k; break;
        case 6: v = v << 3; break;
        case 7: v ^= 0x55; break;
        case 8: y[i] = -1; return;
        case 9: v = x[(i + 1) % 64]; break;
        default: v = 12345;
    }
    y[i] = v;
}

__device__ __noinline__ int factorial(int n) { return n <= 1 ? 1 : n * factorial(n - 1); }
__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* y) {
    int i = threadIdx.x;
    y[i] = factorial(i % 11);
    y[i + 32] = ackermann(i % 3, i % 4);
    y[i + 64] = fibonacci(i % 9);
}

__device__ void quicksort(int* a, int low, int high) {
    if (low >= high) return;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) ++i;
        while (a[j] > pivot) --j;
        if (i <= j) { int hold = a[i]; a[i] = a[j]; a[j] = hold; ++i; --j; }
    }
    quicksort(a, low, j);
    quicksort(a, i, high);
}
extern "C" __global__ void sort_rows(int* x, int n) { quicksort(x + threadIdx.x * n, 0, n - 1); }

struct Complex { float re, im; };
struct Big { double a[3]; int n; char tag; };
__device__ __noinline__ Complex times(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __noinline__ Big grow(Big b, float by) {
    for (int k = 0; k < 3; ++k) b.a[k] += by * k;
    b.n++;
    b.tag = 'x';
    return b;
}
extern "C" __global__ void by_value(const Complex* x, Complex* y, double* z) {
    int i = threadIdx.x;
    Complex c = x[i];
    for (int k = 0; k < 3; ++k) c = times(c, x[i]);
    y[i] = c;
    Big b = {{1.0, 2.0, 3.0}, i, 'a'};
    if (i % 2) b = grow(b, 0.5f);
    b = grow(b, 1.0f);
    z[i] = b.a[0] + b.a[1] * 10 + b.a[2] * 100 + b.n * 1000 + (b.tag == 'x' ? 0.5 : 0.0);
}

typedef int (*Operation)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int minus(int a, int b) { return a - b; }
__device__ int power(int a, int b) { int r = 1; for (int k = 0; k < b; ++k) r *= a; return r; }
__device__ Operation table[3] = {plus, minus, power};
extern "C" __global__ void pointers(const int* x, int* y) {
    int i = threadIdx.x;
    y[i] = table[i % 3](x[i], i % 5);
}

struct Shape { float s; __device__ Shape(float v) : s(v) {} __device__ virtual float area() const = 0; };
struct Square : Shape { __device__ Square(float v) : Shape(v) {} __device__ float area() const override { return s * s; } };
struct Circle : Shape { __device__ Circle(float v) : Shape(v) {} __device__ float area() const override { return 3.0f * s * s; } };
extern "C" __global__ void virtuals(float* y, int kind) {
    int i = threadIdx.x;
    Square a(i); Circle b(i);
    Shape* shapes[2] = {&a, &b};
    y[i] = shapes[(i + kind) % 2]->area();
}

extern "C" __global__ void lanes_lock(int* lock, int* total) {  // lanes of a warp, one after the other
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int*)total = *(volatile int*)total + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
extern "C" __global__ void lanes_lock_spin(int* lock, int* total) {  // needs independent lanes (Volta and later)
    while (atomicCAS(lock, 0, 1) != 0) {}
    *(volatile int*)total = *(volatile int*)total + 1;
    __threadfence();
    atomicExch(lock, 0);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(total + 1, 1);
}
extern "C" __global__ void blocks_lock(int* lock, int* total) {
    if (threadIdx.x == 0) {
        while (atomicExch(lock, 1)) __nanosleep(100);
        *(volatile int*)total += 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
extern "C" __global__ void in_order(volatile int* turn, int* y) {  // blocks take turns by number
    if (threadIdx.x == 0) {
        while (*turn != blockIdx.x) {}
        y[blockIdx.x] = blockIdx.x ? y[blockIdx.x - 1] * 3 + 1 : 1;
        __threadfence();
        *turn = blockIdx.x + 1;
    }
}
extern "C" __global__ void handshake(volatile int* a, int* y) {  // two warps, each waits for the other's word
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int k = 0; k < 4; ++k) {
        if (warp == 0) {
            if (lane == 0) { a[0] = k + 1; __threadfence(); while (a[1] != k + 1) { if (a[2] == 99) break; } }
        } else if (lane == 5) {
            while (a[0] != k + 1) {}
            a[1] = k + 1;
        }
        __syncwarp();
    }
    y[threadIdx.x] = a[0] * 10 + a[1];
}
extern "C" __global__ void lane_waits_for_lane(volatile int* flag, int* y) {
    int lane = threadIdx.x;
    if (lane == 0) { while (*flag == 0) {} y[0] = 7; }
    else if (lane == 31) { *flag = 1; y[31] = 8; }
    else y[lane] = lane;
}

extern "C" __global__ void leaves_from_within(const int* x, int* y, int n) {  // exits in loops and in functions
    int i = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        if (x[i] == k) { y[i] = -k; if (k & 1) asm volatile("exit;"); return; }
        if (x[i] == -k - 1) break;
    }
    y[i] = 1000 + x[i];
}

extern "C" __global__ void gotos(const int* x, int* y) {  // irreducible
    int i = threadIdx.x, v = x[i], n = 0;
    if (v & 1) goto inside;
again:
    v += 3;
    ++n;
inside:
    v -= 1;
    ++n;
    if (v > 0 && n < 20) { if (v % 3 == 0) goto again; v -= 2; goto inside; }
    y[i] = v * 100 + n;
}

extern "C" __global__ void nested(const int* x, int* y) {
    int i = threadIdx.x, sum = 0;
    for (int a = 0; a < x[i]; ++a) {
        for (int b = a; b < x[(i + 1) & 63]; ++b) {
            if ((a + b) % 5 == 4) continue;
            if (b > 6) break;
            sum += a * b;
            if (sum > 200) goto out;
        }
        sum += 1;
    }
out:
    y[i] = sum;
}

extern "C" __global__ void uneven(const int* trips, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = i;
    for (int k = 0; k < trips[i]; ++k) v = v * 0.5f + k;
    y[i] = v;
}

extern "C" __global__ void barrier_in_branch(int* y) {
    if (threadIdx.x % 2) __syncthreads();
    y[threadIdx.x] = 1;
}
extern "C" __global__ void barrier_both_sides(int* y) {
    if (threadIdx.x % 2) { y[threadIdx.x] = 1; __syncthreads(); } else { y[threadIdx.x] = 2; __syncthreads(); }
}
extern "C" __global__ void barrier_by_warp(int* y) {  // legal: whole warps, each at another barrier instruction
    if (threadIdx.x / 32) { y[threadIdx.x] = 1; __syncthreads(); } else { y[threadIdx.x] = 2; __syncthreads(); }
}
extern "C" __global__ void never_ends(int* y) { int i = 0; while (*(volatile int*)y == 0) ++i; y[1] = i; }
extern "C" __global__ void never_changes(int* y) { while (*(volatile int*)y == 0) {} y[1] = 1; }
extern "C" __global__ void never_met(int* y) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;");
    y[threadIdx.x] = 1;
}
extern "C" __global__ void one_thread(int* y, int n) { unsigned s = 1; for (int i = 0; i < n; ++i) s = s * 1664525u + 1013904223u + i; *y = s; }
extern "C" __global__ void deep(int* y, int n) { y[0] = factorial(n); }
