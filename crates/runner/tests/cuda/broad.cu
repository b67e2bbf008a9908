// Something of everything that our headers give.
#include <assert.h>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <float.h>
#include <limits>
#include <limits.h>
#include <math.h>
#include <math_constants.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <type_traits>

namespace cg = cooperative_groups;

__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ unsigned int counter;

template <typename T, int N> struct __align__(16) Pack {
    T values[N];
};

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

__device__ __noinline__ float apart(float x) { return x * x + 1.0f; }

template <typename T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

extern "C" __global__ void __launch_bounds__(256, 2) indices(int *out) {
    dim3 shape(4, 2), block = blockDim;
    uint3 thread = threadIdx;
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = (int)(threadIdx.y + threadIdx.z + blockIdx.y + blockIdx.z + blockDim.y + blockDim.z + gridDim.x + gridDim.y +
                   gridDim.z + block.x + thread.x + shape.z + warpSize) + ceil_div(7, 2);
    out[i] += (int)(clock64() & 1);
}

extern "C" __global__ void vectors(const float4 *__restrict__ in, float4 *out, uchar4 *bytes, longlong2 *wide) {
    float4 a = in[threadIdx.x], b = __ldg(&in[1]), c = __ldcg(&in[2]), d = __ldcs(&in[3]);
    out[threadIdx.x] = make_float4(a.x + b.x, a.y + c.y, a.z + d.z, a.w + table[threadIdx.x & 3]);
    __stcs(&out[9], a);
    __stcg(&out[10], b);
    uchar4 u = make_uchar4(1, 2, 3, 4);
    char4 s = make_char4(-1, 2, 3, 4);
    short2 h = make_short2(1, 2);
    int2 i2 = make_int2(1, 2);
    uint2 u2 = make_uint2(1, 2);
    int4 i4 = make_int4(1, 2, 3, 4);
    uint4 u4 = make_uint4(1, 2, 3, 4);
    float2 f2 = make_float2(1, 2);
    float3 f3 = make_float3(1, 2, 3);
    double2 d2 = make_double2(1, 2);
    ulonglong2 l2 = make_ulonglong2(1, 2);
    uint3 u3 = make_uint3(1, 2, 3);
    u.x += (unsigned char)(s.x + h.x + i2.x + u2.y + i4.z + u4.w + f2.x + f3.z + d2.y + l2.x + u3.z);
    bytes[threadIdx.x] = u;
    wide[threadIdx.x] = make_longlong2(__ldg((const long long *)in), __ldca((const long long *)in));
    Pack<float, 4> p = *reinterpret_cast<const Pack<float, 4> *>(in);
    out[11].x = p.values[2];
}

extern "C" __global__ void warps(int *ints, float *floats, double *doubles, long long *longs) {
    unsigned int lane = threadIdx.x & 31, full = 0xffffffffu;
    int i = ints[lane];
    float f = floats[lane];
    double d = doubles[lane];
    long long l = longs[lane];
    i += __shfl_sync(full, i, 3) + __shfl_up_sync(full, i, 1) + __shfl_down_sync(full, i, 1, 16) + __shfl_xor_sync(full, i, 5, 8);
    f += warp_sum(f) + __shfl_sync(full, f, 0);
    d += warp_sum(d);
    l += warp_sum(l) + (long long)warp_sum((unsigned long long)l) + (long long)warp_sum((size_t)l) + warp_sum((unsigned int)l);
    i += __any_sync(full, i > 0) + __all_sync(full, i > 1) + __uni_sync(full, i > 2) + (int)__ballot_sync(full, i > 3);
    i += (int)(__match_any_sync(full, i) + __match_any_sync(full, l) + __activemask());
    int same;
    i += (int)__match_all_sync(full, i, &same) + same;
    i += __reduce_add_sync(full, i) + __reduce_min_sync(full, i) + __reduce_max_sync(full, i);
    i += (int)(__reduce_and_sync(full, (unsigned int)i) + __reduce_or_sync(full, 1u) + __reduce_xor_sync(full, 2u));
    __syncwarp();
    i += __syncthreads_count(i) + __syncthreads_and(i) + __syncthreads_or(i);
    __syncthreads();
    ints[lane] = i;
    floats[lane] = f;
    doubles[lane] = d;
    longs[lane] = l;
}

extern "C" __global__ void atomics(int *i, unsigned int *u, unsigned long long *l, float *f, double *d) {
    extern __shared__ float dynamic[];
    __shared__ int fixed[32];
    atomicAdd(&fixed[0], 1);
    atomicAdd(&dynamic[0], 1.0f);
    atomicAdd(i, 1);
    atomicAdd(u, 1u);
    atomicAdd(l, 1ull);
    atomicAdd(f, 1.0f);
    atomicAdd(d, 1.0);
    atomicSub(i, 1);
    atomicMin(i, 1);
    atomicMax(i, 1);
    atomicMin(u, 1u);
    atomicMax(u, 1u);
    atomicMax(l, 1ull);
    atomicAnd(i, 1);
    atomicOr(u, 1u);
    atomicXor(l, 1ull);
    atomicExch(i, 1);
    atomicExch(f, 1.0f);
    atomicInc(u, 7u);
    atomicDec(&counter, 7u);
    atomicAdd_block(i, 2);
    i[1] = atomicCAS(i, 1, 2) + (int)atomicCAS(u, 1u, 2u) + (int)atomicCAS(l, 1ull, 2ull);
    __threadfence();
    __threadfence_block();
    __threadfence_system();
    i[2] = fixed[0] + (int)dynamic[0] + (int)__isShared(fixed) + (int)__isGlobal(i);
}

extern "C" __global__ void bits(unsigned int *u, long long *l, float *f, double *d) {
    unsigned int x = u[0];
    x += __popc(x) + __clz((int)x) + __ffs((int)x) + __brev(x) + __byte_perm(x, x, 0x3210) + __funnelshift_l(x, x, 3) +
         __funnelshift_r(x, x, 3) + __funnelshift_lc(x, x, 3) + __funnelshift_rc(x, x, 3) + __umulhi(x, x) + __umul24(x, x);
    x += __dp4a(x, x, x) + (unsigned int)(__dp4a((int)x, 3, 4) + __mulhi((int)x, 3) + __mul24(3, 4)) + __sad(1, 2, 3u);
    x += (unsigned int)__popcll(l[0]) + __clzll(l[0]) + __ffsll(l[0]) + (unsigned int)__brevll(l[0]) + (unsigned int)__umul64hi(l[0], 3);
    x += (unsigned int)__float_as_int(f[0]) + __float_as_uint(f[1]) + (unsigned int)__double_as_longlong(d[0]);
    f[2] = __int_as_float(3) + __uint_as_float(x) + (float)__longlong_as_double(l[1]) + (float)__hiloint2double(__double2hiint(d[0]), __double2loint(d[1]));
    x += (unsigned int)(__float2int_rn(f[0]) + __float2int_rz(f[0]) + __float2int_ru(f[0]) + __float2int_rd(f[0])) + __float2uint_rn(f[0]);
    l[2] = __float2ll_rn(f[0]) + (long long)__float2ull_rz(f[0]) + __double2ll_rn(d[0]) + __double2int_rz(d[0]);
    f[3] = __int2float_rn(3) + __uint2float_rz(x) + __ll2float_rn(l[2]) + __double2float_rn(d[0]) + (float)__ll2double_rn(l[0]);
    u[0] = x;
}

extern "C" __global__ void mathematics(float *f, double *d) {
    float x = f[0], y = f[1], s, c;
    sincosf(x, &s, &c);
    f[2] = expf(x) + exp2f(x) + exp10f(x) + expm1f(x) + logf(x) + log2f(x) + log10f(x) + log1pf(x) + tanhf(x) + erff(x) + powf(x, y) + sinf(x) +
           cosf(x) + tanf(x) + s + c + normcdff(x) + ldexpf(x, 3);
    f[3] = __expf(x) + __exp2f(x) + __exp10f(x) + __logf(x) + __log2f(x) + __log10f(x) + __powf(x, y) + __sinf(x) + __cosf(x) + __tanf(x) +
           __tanhf(x) + __fdividef(x, y) + __frcp_rn(x) + __fsqrt_rn(x) + __frsqrt_rn(x) + __saturatef(x);
    f[4] = sqrtf(x) + rsqrtf(x) + fmaf(x, y, x) + fmaxf(x, y) + fminf(x, y) + fabsf(x) + floorf(x) + ceilf(x) + rintf(x) + roundf(x) + truncf(x) +
           nearbyintf(x) + copysignf(x, y) + fmodf(x, y) + fdimf(x, y) + x / y + fdividef(x, y);
    f[5] = __fadd_rn(x, y) + __fmul_rz(x, y) + __fsub_ru(x, y) + __fdiv_rd(x, y) + __fmaf_rn(x, y, x);
    f[6] = (float)(isnan(x) + isinf(x) + isfinite(x) + signbit(x) + isnan(d[0]) + isinf(d[0]) + lrintf(x) + lroundf(x));
    f[7] = INFINITY + NAN + FLT_MAX + FLT_MIN + FLT_EPSILON + CUDART_INF_F + HUGE_VALF + std::numeric_limits<float>::infinity() +
           std::numeric_limits<float>::lowest() + (float)std::numeric_limits<int>::max() + (float)INT_MAX + (float)M_PI;
    f[8] = std::exp(x) + std::max(x, y) + std::sqrt(x) + std::abs(x) + exp(x) + log(x) + pow(x, 2) + min(x, y) + max(1, 2) + (float)min(1u, 2u);
    double z = d[0];
    d[1] = exp(z) + exp2(z) + log(z) + log2(z) + log10(z) + pow(z, 1.5) + sqrt(z) + rsqrt(z) + fabs(z) + floor(z) + ceil(z) + rint(z) + round(z) +
           trunc(z) + fma(z, z, z) + fmin(z, z) + fmax(z, z) + __dadd_rn(z, z) + __dmul_rn(z, z) + __fma_rn(z, z, z) + z / 3.0 + DBL_MAX;
    f[9] = apart(x);
    static_assert(std::is_same_v<std::conditional_t<true, float, int>, float>);
}

extern "C" __global__ void halves(__half *h, __half2 *h2, __nv_bfloat16 *b, __nv_bfloat162 *b2, float *f) {
    unsigned int full = 0xffffffffu;
    half x = h[0], y = __float2half(f[0]);
    h[1] = x + y * x - y / x;
    h[2] = __hfma(x, y, __hadd(x, y)) + __hmax(x, y) + __hmin(x, y) + hexp(x) + hlog(x) + hsqrt(x) + hrsqrt(x) + __hneg(x) + __habs(x) + __hadd_sat(x, y);
    h[3] = __shfl_xor_sync(full, x, 1) + __shfl_down_sync(full, x, 1) + __ldg(&h[7]) + __ushort_as_half(3) + __double2half(0.1) + __int2half_rn(3);
    f[1] = __half2float(x) + (float)y + (float)__half2int_rn(x) + (float)__hlt(x, y) + (float)(x < y) + (float)__hisnan(x);
    half2 v = h2[0], w = __floats2half2_rn(f[0], f[1]);
    h2[1] = __hfma2(v, w, v) + v * w - __hmax2(v, w) + __half2half2(x) + __halves2half2(x, y) + __lows2half2(v, w) + __heq2(v, w) + h2exp(v);
    float2 wide = __half22float2(v);
    f[2] = wide.x + __low2float(v) + __high2float(w) + __half2float(__low2half(v));
    h2[2] = __shfl_sync(full, v, 2);
    atomicAdd(&h2[3], v);
    atomicAdd(&h[9], x);
    nv_bfloat16 p = b[0], q = __float2bfloat16(f[0]);
    b[1] = p + q * p - q / p;
    b[2] = __hfma(p, q, __hadd(p, q)) + __hmax(p, q) + hexp(p) + __hneg(p) + __double2bfloat16(0.1) + __shfl_up_sync(full, p, 1);
    f[3] = __bfloat162float(p) + (float)q + (float)__hgt(p, q);
    nv_bfloat162 r = b2[0], t = __floats2bfloat162_rn(f[0], f[1]);
    b2[1] = __hfma2(r, t, r) + r * t + __bfloat162bfloat162(p) + __hmin2(r, t);
    float2 widened = __bfloat1622float2(r);
    f[4] = widened.x + widened.y + (float)std::numeric_limits<uint8_t>::max() + (float)sizeof(int64_t) + (float)offsetof(float2, y);
    atomicAdd(&b2[2], r);
}

extern "C" __global__ void groups(float *f, int *i) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto quad = cg::tiled_partition<4>(warp);
    float sum = cg::reduce(warp, f[block.thread_rank()], cg::plus<float>());
    sum += cg::reduce(quad, sum, cg::greater<float>()) + quad.shfl_down(sum, 1) + warp.shfl(sum, 0) + warp.shfl_xor(sum, 3);
    i[warp.thread_rank()] = cg::reduce(quad, i[0], cg::less<int>()) + quad.any(1) + quad.all(0) + (int)quad.ballot(1) +
                            (int)(warp.meta_group_rank() + warp.meta_group_size() + quad.size() + block.size());
    if (threadIdx.x & 1) {
        cg::coalesced_group active = cg::coalesced_threads();
        i[active.thread_rank()] += (int)active.size();
        active.sync();
    }
    block.sync();
    cg::sync(warp);
    f[0] = sum;
}

extern "C" __global__ void copies(const float4 *in, float *out) {
    __shared__ float4 tile[2][64];
    __pipeline_memcpy_async(&tile[0][threadIdx.x], &in[threadIdx.x], 16);
    __pipeline_memcpy_async(&tile[1][threadIdx.x], &in[threadIdx.x], 8);
    __pipeline_memcpy_async(&tile[1][threadIdx.x].z, &in[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[0][threadIdx.x ^ 1].x + tile[1][0].y;
}

extern "C" __global__ void words(int *i) {
    assert(i != nullptr);
    if (i[0] == 7) printf("%d %f %s\n", i[0], 1.5, "seven");
    if (i[0] == 8) __trap();
    __nanosleep(10);
    asm volatile("membar.gl;" ::: "memory");
}
