// Compensated sums throughout, and a fixed order of additions over rows: blocks take their places by ticket, and each adds its rows to what
// the one before has passed on (a chained scan, of which only the last value is of interest).
#include <cstdint>

struct Kahan {
    float sum = 0, rest = 0;

    __device__ __forceinline__ void operator+=(float value) {
        const float y = __fsub_rn(value, rest);
        const float t = __fadd_rn(sum, y);
        rest = __fsub_rn(__fsub_rn(t, sum), y);
        sum = t;
    }
    __device__ __forceinline__ float total() const { return __fsub_rn(sum, rest); }
};

__device__ __forceinline__ float warp_total(Kahan k) {
#pragma unroll
    for (int delta = 1; delta < 32; delta <<= 1) {
        const float sum = __shfl_xor_sync(0xffffffff, k.sum, delta), rest = __shfl_xor_sync(0xffffffff, k.rest, delta);
        k += sum;
        k += -rest;
    }
    return __shfl_sync(0xffffffff, k.total(), 0);
}

extern "C" __global__ void forward(const float* x, const float* gamma, const float* beta, float* y, float* mean, float* rstd,
                                   int64_t rows, int D, float eps) {
    const int lane = threadIdx.x % warpSize;
    const int64_t row = int64_t(blockIdx.x) * (blockDim.x / warpSize) + threadIdx.x / warpSize;
    if (row >= rows) return;
    const float* in = x + row * D;
    Kahan sum;
    for (int c = lane; c < D; c += warpSize) sum += in[c];
    const float m = warp_total(sum) / D;
    Kahan squares;
    for (int c = lane; c < D; c += warpSize) {
        const float d = in[c] - m;
        squares += d * d;
    }
    const float r = 1.0f / sqrtf(warp_total(squares) / D + eps);
    for (int c = lane; c < D; c += warpSize) y[row * D + c] = fmaf((in[c] - m) * r, gamma[c], beta[c]);
    if (lane == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

extern "C" __global__ void backward_dx(const float* dy, const float* x, const float* gamma, const float* mean, const float* rstd,
                                       float* dx, int64_t rows, int D) {
    const int lane = threadIdx.x % warpSize;
    const int64_t row = int64_t(blockIdx.x) * (blockDim.x / warpSize) + threadIdx.x / warpSize;
    if (row >= rows) return;
    const float m = mean[row], r = rstd[row];
    Kahan a, b;
    for (int c = lane; c < D; c += warpSize) {
        const float g = dy[row * D + c] * gamma[c];
        a += g;
        b += g * ((x[row * D + c] - m) * r);
    }
    const float ma = warp_total(a) / D, mb = warp_total(b) / D;
    for (int c = lane; c < D; c += warpSize) {
        const float xhat = (x[row * D + c] - m) * r;
        dx[row * D + c] = r * (dy[row * D + c] * gamma[c] - ma - xhat * mb);
    }
}

extern "C" __global__ void backward_columns(const float* dy, const float* x, const float* mean, const float* rstd, float* carry,
                                            int* flags, float* dgamma, float* dbeta, int64_t rows, int D) {
    __shared__ int s_place;
    if (threadIdx.x == 0) s_place = atomicAdd(&flags[0], 1);
    __syncthreads();
    const int place = s_place;
    const int64_t begin = rows * place / gridDim.x, end = rows * (place + 1) / gridDim.x;
    volatile int* ready = flags + 1;
    float* passed = carry;

    for (int tile = 0; tile * 256 < D; ++tile) {
        const int c = tile * 256 + threadIdx.x;
        Kahan g, b;
        if (c < D) {
            for (int64_t row = begin; row < end; ++row) {
                const float d = dy[row * D + c];
                g += d * ((x[row * D + c] - mean[row]) * rstd[row]);
                b += d;
            }
        }
        // Wait for the one before.
        if (threadIdx.x == 0) {
            while (ready[tile] != place) {
            }
            __threadfence();
        }
        if (c < D && place > 0) {
            g += passed[c];
            g += -passed[D + c];
            b += passed[2 * D + c];
            b += -passed[3 * D + c];
        }
        if (c < D) {
            if (place == (int)gridDim.x - 1) {
                dgamma[c] = g.total();
                dbeta[c] = b.total();
            } else {
                passed[c] = g.sum;
                passed[D + c] = g.rest;
                passed[2 * D + c] = b.sum;
                passed[3 * D + c] = b.rest;
            }
        }
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) ready[tile] = place + 1;
    }
}
