// Single-launch backward. Each warp owns whole rows; dgamma/dbeta accumulate in dynamic shared memory,
// column j being owned by lane (j % 32) of *every* warp, so warps take turns; the last block
// adds the partials in a fixed order => deterministic.
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

#define WARP 32

namespace ln {

struct Moments {
    float mean, rstd;
};

template <typename Fn>
__device__ __forceinline__ void for_lanes(int D, Fn fn) {
    const int lane = threadIdx.x & (WARP - 1);
#pragma unroll 4
    for (int j = lane; j < D; j += WARP) fn(j);
}

__device__ __forceinline__ float allreduce(float v) {
    v += __shfl_xor_sync(0xffffffff, v, 16);
    v += __shfl_xor_sync(0xffffffff, v, 8);
    v += __shfl_xor_sync(0xffffffff, v, 4);
    v += __shfl_xor_sync(0xffffffff, v, 2);
    v += __shfl_xor_sync(0xffffffff, v, 1);
    return v;
}

__device__ __forceinline__ float ld_nc(const float* p) {
    float v;
    asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}

__device__ __forceinline__ Moments moments(const float* __restrict__ row, int D, float eps) {
    // shifted by the first element, compensates large means
    float shift = 0.f;
    if ((threadIdx.x & 31) == 0) shift = row[0];
    shift = __shfl_sync(0xffffffffu, shift, 0);
    float s = 0.f;
    for_lanes(D, [&](int j) { s += row[j] - shift; });
    const float mu = allreduce(s) / D;
    float q = 0.f;
    for_lanes(D, [&](int j) {
        const float c = (row[j] - shift) - mu;
        q = __fmaf_rn(c, c, q);
    });
    q = allreduce(q) / D;
    Moments out;
    out.mean = shift + mu;
    out.rstd = __frsqrt_rn(q + eps);
    return out;
}

}  // namespace ln

extern "C" __global__ void __launch_bounds__(128)
forward_warp(const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ beta,
             float* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int64_t rows, int D, float eps) {
    const int64_t warps = int64_t(gridDim.x) * (blockDim.x / WARP);
    for (int64_t r = int64_t(blockIdx.x) * (blockDim.x / WARP) + threadIdx.x / WARP; r < rows; r += warps) {
        const float* row = x + r * D;
        const auto [mu, rs] = ln::moments(row, D, eps);
        ln::for_lanes(D, [=](int j) { y[r * D + j] = __fmaf_rn((row[j] - mu) * rs, gamma[j], beta[j]); });
        if (threadIdx.x % WARP == 0) {
            mean[r] = mu;
            rstd[r] = rs;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
backward_fused(const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gamma,
               const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dx,
               float* __restrict__ dgamma, float* __restrict__ dbeta, float* partial, int* ticket, int64_t rows, int D) {
    extern __shared__ float dyn[];
    __shared__ float tile[2][8][WARP];
    __shared__ bool amLast;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const bool in_smem = D <= 4096;
    float* out = partial + size_t(blockIdx.x) * 2 * D;
    float* acc = in_smem ? dyn : out;  // generic pointer: shared or global
    float *ag = acc, *ab = acc + D;
    for (int j = threadIdx.x; j < 2 * D; j += blockDim.x) acc[j] = 0.f;
    __syncthreads();

    const int64_t chunk = (rows + gridDim.x - 1) / gridDim.x;
    const int64_t begin = blockIdx.x * chunk, end = begin + chunk < rows ? begin + chunk : rows;
    for (int64_t base = begin; base < end; base += warps) {
        const int64_t r = base + warp;
        const bool active = r < end;
        float mu = 0.f, rs = 0.f;
        if (active) {
            mu = mean[r];
            rs = rstd[r];
            float a = 0.f, b = 0.f;
            ln::for_lanes(D, [&](int j) {
                const float g = dy[r * D + j] * gamma[j];
                a += g;
                b += g * ((x[r * D + j] - mu) * rs);
            });
            a = ln::allreduce(a) / D;
            b = ln::allreduce(b) / D;
            ln::for_lanes(D, [&](int j) {
                const float xh = (x[r * D + j] - mu) * rs;
                dx[r * D + j] = rs * (dy[r * D + j] * gamma[j] - a - xh * b);
            });
        }
        // fold the rows of the block's warps, 32 columns at a time
        for (int j0 = 0; j0 < D; j0 += WARP) {
            const int j = j0 + lane;
            float g = 0.f, b = 0.f;
            if (active && j < D) {
                b = ln::ld_nc(dy + r * D + j);
                g = b * ((x[r * D + j] - mu) * rs);
            }
            tile[0][warp][lane] = g;
            tile[1][warp][lane] = b;
            __syncthreads();
            if (warp < 2 && j < D) {
                float s = 0.f;
                for (int w = 0; w < warps; ++w) s += tile[warp][w][lane];
                (warp ? ab : ag)[j] += s;
            }
            __syncthreads();
        }
    }
    if (in_smem)
        for (int j = threadIdx.x; j < 2 * D; j += blockDim.x) out[j] = acc[j];

    // --- last block done ---
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const int done = atomicAdd(ticket, 1);
        amLast = (done == int(gridDim.x) - 1);
    }
    __syncthreads();
    if (amLast) {
        for (int j = threadIdx.x; j < D; j += blockDim.x) {
            float g = 0.f, b = 0.f;
            for (unsigned k = 0; k < gridDim.x; ++k) {
                g += __ldcg(partial + size_t(k) * 2 * D + j);
                b += __ldcg(partial + size_t(k) * 2 * D + D + j);
            }
            dgamma[j] = g;
            dbeta[j] = b;
        }
    }
}
