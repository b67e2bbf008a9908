// Something of everything that our headers give.
#include <algorithm>
#include <array>
#include <assert.h>
#include <cassert>
#include <cfloat>
#include <cinttypes>
#include <climits>
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuComplex.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <float.h>
#include <functional>
#include <initializer_list>
#include <inttypes.h>
#include <limits>
#include <limits.h>
#include <math.h>
#include <math_constants.h>
#include <math_functions.h>
#include <new>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector_functions.h>

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
    f[3] = __expf(x) + __exp10f(x) + __logf(x) + __log2f(x) + __log10f(x) + __powf(x, y) + __sinf(x) + __cosf(x) + __tanf(x) +
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

template <size_t... i> __device__ float sum_of(const float *f, std::index_sequence<i...>) { return (f[i] + ...); }
__device__ float sum_of(std::initializer_list<float> list) {
    float sum = 0;
    for (float x : list) sum += x;
    return sum;
}
struct Made {
    int a;
};

extern "C" __global__ void library(float *f, int *i) {
    uint u = 3;
    ushort us = 4;
    ulong ul = 5;
    int64_t wide = INT64_C(6);
    std::size_t size = 3;
    f[0] = std::max(f[0], 1.0f) + std::min<int>(i[0], 3) + std::exp(f[1]) + u + us + ul + wide + size;
    float a = f[2], b = f[3];
    std::swap(a, b);
    std::array<float, 4> four{};
    four[i[0] & 3] = b;
    std::tuple<float, int> t{a, i[1]};
    auto [x, y] = std::make_pair(a, i[0]);
    auto [p, q] = t;
    struct Moments {
        float mean, rstd;
    };
    const auto [mean, rstd] = Moments{a, b};
    std::tie(a, b) = std::make_tuple(f[7] * mean, f[8] * rstd);
    f[1] = four[1] + four.size() + std::get<0>(t) + x + y + p + q + std::clamp(a, 0.0f, 1.0f) + std::plus<float>()(a, b);
    f[2] = std::less<>()(a, b) + sum_of({a, b}) + sum_of(f, std::make_index_sequence<4>{}) + std::lround(a) + std::hypot(a, b);
    unsigned int word;
    memcpy(&word, &f[9], 4);
    int zeros[4];
    std::memset(zeros, 0, sizeof(zeros));
    alignas(Made) unsigned char room[sizeof(Made)];
    i[2] = (int)word + zeros[i[0] & 3] + (new (room) Made{i[0]})->a;
    int sorted[] = {1, 2, 3};
    i[3] = (int)(std::lower_bound(sorted, sorted + 3, i[0]) - sorted);
    std::fill(i + 4, i + 6, 4);
    if (i[0] == 9) printf("%" PRId64 "\n", wide);
    cuFloatComplex z = cuCdivf(make_cuFloatComplex(1.0f, a), make_cuFloatComplex(2.0f, b));
    f[3] = cuCabsf(z) + CUDART_PIO2_F + CUDART_SQRT_TWO_F + std::numeric_limits<float>::digits10 + std::numeric_limits<int>::infinity();
    static_assert(std::is_same_v<std::decay_t<const int &>, std::remove_cv_t<const int>> && std::is_arithmetic_v<float>);
    static_assert(std::is_convertible_v<int, float> && std::conjunction_v<std::true_type, std::bool_constant<true>>);
    static_assert(std::is_same_v<std::make_unsigned_t<int>, unsigned> && std::is_signed<int>::value && CUDA_VERSION >= 12000);
}

extern "C" __global__ void overloads(float *f, double *d, int *i, long long *l, unsigned long long *u) {
    f[0] = (float)(max(f[0], -1e30) + min(d[0], f[1]) + pow(f[0], 2.0) + pow(2, i[0]) + sqrt(i[0]) + exp(i[1]) + log(i[1]) + floor(i[2]));
    u[0] = min(l[0], u[1]) + max(u[2], l[1]) + umin(1u, 2u) + ullmax(u[3], 3ull) + (unsigned long long)(llmin(l[2], 3ll) + labs(-3l));
    f[1] = asinf(f[2]) + acosf(f[2]) + atanf(f[2]) + atan2f(f[2], f[3]) + sinhf(f[2]) + coshf(f[2]) + asinhf(f[2]) + acoshf(f[2]) + atanhf(f[2]) +
           sinpif(f[2]) + cospif(f[2]) + erfcf(f[2]) + erfcxf(f[2]) + erfinvf(f[2]) + erfcinvf(f[2]) + normcdfinvf(f[2]) + cbrtf(f[2]) + rcbrtf(f[2]) +
           hypotf(f[2], f[3]) + rhypotf(f[2], f[3]) + norm3df(f[2], f[3], 1) + rnorm4df(f[2], f[3], 1, 2) + normf(3, f) + lgammaf(f[2]) + tgammaf(f[2]);
    int e;
    float whole;
    f[2] = remainderf(f[2], f[3]) + remquof(f[2], f[3], &e) + nextafterf(f[2], f[3]) + frexpf(f[3], &e) + modff(f[2], &whole) + logbf(f[2]) +
           scalblnf(f[2], 3l) + nanf("") + whole + (float)(ilogbf(f[2]) + llrintf(f[2]) + llroundf(f[2]) + __isnanf(f[2]) + e);
    double s, c, x = d[0];
    sincos(x, &s, &c);
    d[1] = sin(x) + cos(x) + tan(x) + s + c + sinpi(x) + asin(x) + acos(x) + atan(x) + atan2(x, s) + sinh(x) + cosh(x) + tanh(x) + asinh(x) + acosh(x) +
           atanh(x) + exp10(x) + expm1(x) + log1p(x) + erf(x) + erfc(x) + erfcx(x) + erfinv(x) + normcdf(x) + cbrt(x) + hypot(x, s) + lgamma(x) + tgamma(x);
    d[2] = fmod(x, s) + remainder(x, s) + fdim(x, s) + ldexp(x, 3) + scalbn(x, 3) + frexp(x, &e) + (double)(lrint(x) + llround(x) + ilogb(x)) +
           norm3d(x, s, c) + normcdfinv(x);
}

extern "C" __global__ void lanes(unsigned int *u, long long *l, double *d, char4 *c, unsigned short *h) {
    unsigned int a = u[0], b = u[1];
    u[2] = __vadd4(a, b) + __vadd2(a, b) + __vsub4(a, b) + __vaddss2(a, b) + __vaddus4(a, b) + __vavgu4(a, b) + __vavgs2(a, b) + __vhaddu4(a, b) +
           __vabs4(a) + __vabsss2(a) + __vneg2(a) + __vnegss4(a) + __vabsdiffu4(a, b) + __vsads2(a, b) + __vsadu4(a, b) + __vmaxs4(a, b) +
           __vminu2(a, b) + __vcmpeq4(a, b) + __vcmpgts2(a, b) + __vcmpleu4(a, b) + __vsetne2(a, b) + __vsetlts4(a, b);
    u[3] = __usad(a, b, 3u) + __uhadd(a, b) + __urhadd(a, b) + (unsigned int)(__hadd(1, 2) + __rhadd(1, 2)) + __fns(a, 3, 2) +
           (unsigned int)(__dp4a(c[0], c[1], 3) + __dp2a_lo(1, 2, 3)) + __dp2a_hi(a, b, 3u);
    l[0] = __mul64hi(l[0], l[1]) + (long long)__double2ull_rz(d[0]) + (long long)__match_any_sync(~0u, (unsigned long)l[0]);
    d[1] = __ull2double_rn((unsigned long long)l[1]) + __fmaf_ieee_rn(1, 2, 3);
    atomicMin_block(u, 1u);
    atomicMax_block((unsigned long long *)l, 1ull);
    atomicSub_block(u, 1u);
    atomicExch_block((float *)d, 1.0f);
    atomicCAS_block(u, 1u, 2u);
    atomicCAS(h, (unsigned short)1, (unsigned short)2);
    __shared__ int cell;
    if (threadIdx.x == 0) *(int *)__cvta_shared_to_generic(__cvta_generic_to_shared(&cell)) = 3;
    __barrier_sync(0);
    u[4] = (unsigned int)cell + __isLocal(&a) + __isConstant(table);
}
