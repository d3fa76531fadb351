// adamw/scalar: a launch for each tensor, one element a thread.
//
// computes  g = factor * grad[i]; exp_avg[i] += rate1 * (g - exp_avg[i]); exp_avg_sq[i] += rate2 * (g * g -
//           exp_avg_sq[i]); param[i] -= lr * (weight_decay * param[i] + m / (sqrt(v) + eps)), where m and v are
//           both without their bias; nothing if found[0] is set
// mapping   thread i of the grid -> element i
// load param 4 sectors/request
// load grad 4 sectors/request
// load exp_avg 4 sectors/request
// load exp_avg_sq 4 sectors/request
// store param 4 sectors/request
// store exp_avg 4 sectors/request
// store exp_avg_sq 4 sectors/request
// load found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// load skipped 1 sectors/request
// teaches   Four arrays read and three written, 28 bytes a parameter: at the speed of a copy that is the floor,
//           and every step done apart (unscaling, clipping, decay, two means, the update) would move some of them
//           again. Here each thread works out for itself what all share: the bias of the means, the factor.
// source    Loshchilov and Hutter, "Decoupled weight decay regularization"; PyTorch's fused AdamW

#include "adamw.cuh"

extern "C" __global__ void adamw_scalar(float* __restrict__ param, const element_t* __restrict__ grad,
                                        float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq,
                                        const float* __restrict__ found, const float* __restrict__ inv_scale,
                                        const float* __restrict__ norm, const int* __restrict__ skipped,
                                        float max_norm, float lr, float rate1, float rate2, float eps,
                                        float weight_decay, int step, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && found[0] == 0.0f) {
        const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
        const AdamW adamw(factor, lr, rate1, rate2, eps, weight_decay, max(step - skipped[0], 1));
        const element_t element = grad[i];
        float p = param[i], m = exp_avg[i], s = exp_avg_sq[i];
        adamw.update(p, to_float(element), m, s);
        param[i] = p;
        exp_avg[i] = m;
        exp_avg_sq[i] = s;
    }
}
