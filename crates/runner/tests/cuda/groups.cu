// What kernels for language models take from beyond the language: halves, 8-bit floats, groups, copies, atomics, products of matrices, and what cub has for blocks.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
// NVRTC has no cub.
#ifdef __clang__
#include <cub/cub.cuh>
#endif
#include <cuda/atomic>
#include <cuda/functional>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/utility>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>
#include <cuda/std/bit>
#include <cuda/std/cstdint>
#include <cuda/std/cstring>
#include <cuda/std/limits>
#include <cuda/std/type_traits>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

namespace cg = cooperative_groups;
namespace wmma = nvcuda::wmma;
namespace bits = cuda::std;

static_assert(bits::popcount(0xF0F0u) == 8 && bits::countl_zero((unsigned short)1) == 15 && bits::countl_zero(0u) == 32 && bits::has_single_bit(64u));
static_assert(bits::countr_zero(8ull) == 3 && bits::countr_zero((unsigned char)0) == 8 && bits::countl_one(0xF0000000u) == 4 && bits::countr_one(7u) == 3);
static_assert(bits::bit_width(5u) == 3 && bits::bit_floor(5u) == 4 && bits::bit_ceil(5u) == 8 && bits::bit_ceil(4u) == 4 && bits::bit_ceil(0u) == 1);
static_assert(bits::rotl(0x80000001u, 1) == 3 && bits::rotr(3u, 1) == 0x80000001u && bits::rotl(5u, 0) == 5 && bits::rotl((unsigned char)0x81, -1) == 0xC0);
static_assert(bits::bit_cast<unsigned int>(1.0f) == 0x3F800000u);

// `alignas` may stand wherever nvcc takes it, and name a number or a type.
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Aligned {
    T values[N];
};
struct alignas(float4) Four {
    alignas(8) char first;
};
static_assert(alignof(Aligned<float, 8>) == 16 && alignof(Aligned<float, 2>) == 8 && alignof(Four) == 16 && sizeof(Four) == 16);
template <class T> __device__ T turned(T x) {
    __shared__ alignas(16) T behind[2][32];
    alignas(16) __shared__ T before[32];
    alignas(T) static __shared__ unsigned char bytes[sizeof(T)];
    behind[0][threadIdx.x] = x;
    before[threadIdx.x] = x;
    bytes[0] = 0;
    __syncthreads();
    return behind[0][31 - threadIdx.x] + before[threadIdx.x] + bytes[0];
}
extern __shared__ __align__(128) unsigned char dynamic[];
extern "C" __global__ void aligned(float *x) {
    x[threadIdx.x] = turned(x[threadIdx.x]) + turned((double)x[threadIdx.x]) + dynamic[threadIdx.x];
}

// 11 numbers for each thread of a block of 64.
extern "C" __global__ void tiles(const int *in, int *out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    cg::thread_group sixteen = cg::tiled_partition(block, 16);
    int value = in[block.thread_rank()], same;
    int *mine = out + 11 * cg::thread_rank(block);
    mine[0] = warp.meta_group_rank() * 100 + warp.meta_group_size();
    mine[1] = eight.meta_group_rank() * 100 + eight.meta_group_size();
    mine[2] = eight.shfl(value, 3);
    mine[3] = eight.shfl_down(value, 2);
    mine[4] = eight.ballot(value & 1);
    mine[5] = eight.match_any(value & 3);
    mine[6] = eight.any(value == 7) * 10 + eight.all(value != 7);
    mine[7] = sixteen.thread_rank() * 100 + sixteen.size();
    mine[8] = eight.match_all(value >> 8, same) + same * 1000;
    mine[9] = cg::invoke_one_broadcast(eight, [&] { return value + 1; });
    mine[10] = (int)(cg::this_grid().thread_rank() * 1000 + cg::this_grid().size());
    auto token = block.barrier_arrive();
    block.barrier_wait(static_cast<decltype(token) &&>(token));
    cg::invoke_one(block, [&] { out[11 * 64] = cg::group_size(block); });
}

struct Largest {
    float value, sum;
    unsigned char from;
};

// Values of any type, between the threads of a block of 32: what an online softmax reduces, and vectors.
extern "C" __global__ void structs(const float *in, float *out) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    unsigned int i = threadIdx.x;
    Largest all = cg::reduce(tile, Largest{in[i], in[i], (unsigned char)i}, [](Largest a, Largest b) {
        Largest larger = b.value > a.value ? b : a;
        return Largest{larger.value, a.sum + b.sum, larger.from};
    });
    float4 other = tile.shfl_xor(make_float4(in[i], in[i] + 1, in[i] + 2, in[i] + 3), 5);
    out[6 * i] = all.value;
    out[6 * i + 1] = all.sum;
    out[6 * i + 2] = all.from;
    out[6 * i + 3] = other.x + other.w;
    out[6 * i + 4] = (float)tile.shfl((double)in[i] / 2, 1);
    out[6 * i + 5] = (float)tile.shfl_up(__float2half(in[i]), 1);
}

// 16 numbers for each thread of a block of 64 whose number is positive.
extern "C" __global__ void lanes(const int *in, int *out) {
    int value = in[threadIdx.x], *mine = out + 16 * threadIdx.x, same;
    if (value > 0) {
        cg::coalesced_group group = cg::coalesced_threads();
        mine[0] = group.thread_rank() * 100 + group.size();
        mine[1] = group.shfl(value, 1);
        mine[2] = group.shfl_up(value, 2);
        mine[3] = group.shfl_down(value, 3);
        mine[4] = group.ballot(value & 1);
        mine[5] = group.match_any(value & 3);
        mine[6] = cg::reduce(group, value, cg::plus<int>());
        mine[7] = cg::inclusive_scan(group, value, cg::plus<int>());
        mine[8] = cg::exclusive_scan(group, value, cg::greater<int>());
        mine[9] = group.match_all(value, same) * 10 + same;
        mine[10] = group.meta_group_rank() * 100 + group.meta_group_size();
        cg::coalesced_group labeled = cg::labeled_partition(group, value % 3);
        mine[11] = labeled.thread_rank() * 100 + labeled.size();
        mine[12] = labeled.meta_group_rank() * 100 + labeled.meta_group_size();
        mine[13] = cg::reduce(labeled, value, cuda::maximum<int>());
        auto binary = cg::binary_partition(group, value > (threadIdx.x < 32 ? 9 : 0));
        mine[14] = binary.thread_rank() * 100 + binary.size();
        mine[15] = binary.meta_group_rank() * 100 + binary.meta_group_size();
    }
    __syncwarp();
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[16 * 64 + threadIdx.x] = cg::inclusive_scan(tile, value);
    out[17 * 64 + threadIdx.x] = cg::exclusive_scan(tile, value);
}

// Three times 128 floats by 32 threads, in three ways.
extern "C" __global__ void copies(const float *in, float *out) {
    __shared__ __align__(16) float tile[3][128];
    cg::thread_block block = cg::this_thread_block();
    unsigned int i = threadIdx.x;
    cg::memcpy_async(block, tile[0], in, sizeof(float) * 128);
    cg::memcpy_async(block, tile[1] + 1, in + 129, sizeof(float) * 127);
    cg::wait_prior<1>(block);
    for (unsigned int k = i; k < 128; k += 32) out[k] = tile[0][127 - k];
    cg::wait(block);
    for (unsigned int k = i; k < 127; k += 32) out[128 + k] = tile[1][127 - k];
    block.sync();
    auto pipe = cuda::make_pipeline();
    for (unsigned int stage = 0; stage < 2; stage++) {
        pipe.producer_acquire();
        cuda::memcpy_async(&tile[stage][4 * i], in + 256 + 128 * stage + 4 * i, cuda::aligned_size_t<16>(16), pipe);
        pipe.producer_commit();
    }
    for (unsigned int stage = 0; stage < 2; stage++) {
        pipe.consumer_wait();
        block.sync();
        for (unsigned int k = i; k < 128; k += 32) out[256 + 128 * stage + k] = tile[stage][127 - k];
        pipe.consumer_release();
    }
}

// Four times 128 floats, of which 256 are on their way at once.
extern "C" __global__ void stages(const float *in, float *out) {
    __shared__ __align__(16) float tile[2][128];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    cg::thread_block block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    for (unsigned int stage = 0, next = 0; stage < 4; stage++) {
        for (; next < 4 && next < stage + 2; next++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[next % 2], in + 128 * next, sizeof(float) * 128, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        for (unsigned int k = threadIdx.x; k < 128; k += 32) out[128 * stage + k] = tile[stage % 2][127 - k];
        pipe.consumer_release();
    }
}

// 512 floats by 64 threads, in five ways of 128 or 64: by barriers that threads and copies arrive at.
extern "C" __global__ void barriers(const float *in, float *out) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ __align__(16) float tile[4][128];
    __shared__ barrier all, half;
    __shared__ __mbarrier_t plain;
    cg::thread_block block = cg::this_thread_block();
    unsigned int i = threadIdx.x;
    if (i == 0) {
        init(&all, block.size());
        init(&half, 32);
        __mbarrier_init(&plain, 64);
    }
    block.sync();
    // All copy and all wait.
    cuda::memcpy_async(block, tile[0], in, cuda::aligned_size_t<16>(sizeof(float) * 128), all);
    barrier::arrival_token token = all.arrive();
    all.wait(cuda::std::move(token));
    for (unsigned int k = i; k < 128; k += 64) out[k] = tile[0][127 - k];
    // Each for itself, then two arrivals of every second thread.
    cuda::memcpy_async(&tile[1][2 * i], in + 128 + 2 * i, sizeof(float) * 2, all);
    all.arrive_and_wait();
    for (unsigned int k = i; k < 128; k += 64) out[128 + k] = tile[1][127 - k];
    if (i % 2 == 0) {
        tile[2][i] = in[256 + i];
        tile[2][i + 1] = in[257 + i];
        (void)all.arrive(2);
    }
    all.wait_parity(false);
    out[256 + i] = tile[2][63 - i];
    // One warp for the other, which need not wait.
    if (i < 32) {
        tile[2][64 + i] = in[320 + i];
        half.arrive_and_drop();
    } else {
        half.wait_parity(false);
        out[320 + i - 32] = tile[2][64 + 63 - i];
    }
    // Without classes.
    __pipeline_memcpy_async(&tile[3][i], in + 352 + i, 4);
    __pipeline_arrive_on(&plain);
    __mbarrier_token_t arrived = __mbarrier_arrive(&plain);
    while (!__mbarrier_test_wait(&plain, arrived)) {
    }
    out[352 + i] = tile[3][63 - i] + (float)(__mbarrier_token_pending_count(arrived) > 0);
    block.sync();
    if (i == 0) __mbarrier_inval(&plain);
}

// Eight times 64 floats that one warp copies and another turns around, in two stages; told by role, or by how many.
template <class Maker> static __device__ void roles(const float *in, float *out, float (*tile)[64], Maker make) {
    auto pipe = make();
    unsigned int lane = threadIdx.x % 32;
    for (unsigned int step = 0; step < 8; step++) {
        if (threadIdx.x < 32) {
            pipe.producer_acquire();
            cuda::memcpy_async(cg::this_thread(), &tile[step % 2][2 * lane], in + 64 * step + 2 * lane, sizeof(float) * 2, pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            out[64 * step + lane] = tile[step % 2][63 - lane];
            out[64 * step + 32 + lane] = tile[step % 2][31 - lane];
            pipe.consumer_release();
        }
    }
}
extern "C" __global__ void producers(const float *in, float *out) {
    __shared__ __align__(16) float tile[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> one, two;
    auto block = cg::this_thread_block();
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    roles(in, out, tile, [&] { return cuda::make_pipeline(block, &one, role); });
    block.sync();
    roles(in, out + 512, tile, [&] { return cuda::make_pipeline(block, &two, 32); });
}

// What threads of two blocks of 64 make of zeros.
extern "C" __global__ void atomics(int *i, unsigned long long *l, float *f) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> inner;
    if (threadIdx.x == 0) inner.store(1, cuda::memory_order_relaxed);
    __syncthreads();
    inner.fetch_add(threadIdx.x, cuda::memory_order_relaxed);
    __syncthreads();
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(i[0]), most(i[1]), bits(i[2]), least(i[3]), swapped(i[4]);
    if (threadIdx.x == 0) sum.fetch_add(inner.load(), cuda::std::memory_order_acq_rel);
    most.fetch_max((int)threadIdx.x - 5);
    bits |= 1 << threadIdx.x % 8;
    least.fetch_min(-(int)threadIdx.x, cuda::memory_order_release);
    int seen = swapped.load(cuda::memory_order_acquire);
    while (!swapped.compare_exchange_weak(seen, seen + 2)) {
    }
    cuda::atomic_ref<unsigned long long>(l[0]).fetch_sub(1);
    cuda::atomic_ref<float>(f[0]).fetch_add(0.5f);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
    static_assert(cuda::std::is_same_v<cuda::std::uint8_t, unsigned char> && cuda::std::numeric_limits<int>::max() > 0);
}

// What the blocks before sum up to, passed on from block to block in three ways, and what all do, by the block that comes last.
extern "C" __global__ void across(const int *in, int *out, volatile unsigned long long *packed, int *sums, int *flags, volatile int *loose,
                                  volatile int *raised, int *ticket) {
    __shared__ int total;
    const unsigned b = blockIdx.x, all = gridDim.x;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, in[b * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x > 0) return;
    // A flag and a sum in one word.
    unsigned long long word = 1ull << 32;
    if (b > 0)
        do word = packed[b - 1];
        while (word >> 32 == 0);
    packed[b] = 1ull << 32 | (unsigned)((int)word + total);
    // A flag that releases.
    using flag = cuda::atomic_ref<int, cuda::thread_scope_device>;
    if (b > 0)
        while (flag(flags[b - 1]).load(cuda::memory_order_acquire) == 0) {
        }
    const int before = b > 0 ? sums[b - 1] : 0;
    sums[b] = before + total;
    flag(flags[b]).store(1, cuda::memory_order_release);
    // A fence between two volatile writes.
    if (b > 0)
        while (raised[b - 1] == 0) {
        }
    const int also_before = b > 0 ? loose[b - 1] : 0;
    loose[b] = also_before + total;
    __threadfence();
    raised[b] = 1;
    out[3 * b] = (int)word;
    out[3 * b + 1] = before;
    out[3 * b + 2] = also_before;
    if (atomicAdd(ticket, 1) == all - 1) {
        __threadfence();
        int last = 0;
        for (unsigned other = 0; other < all; other++) last += loose[other];
        out[3 * all] = last;
    }
}

// For each float: rounded to both halves in four ways, and what integers become of the first.
extern "C" __global__ void rounded(const float *in, unsigned short *out) {
    float x = in[threadIdx.x];
    unsigned short *mine = out + 16 * threadIdx.x;
    mine[0] = __half_as_ushort(__float2half_rn(x));
    mine[1] = __half_as_ushort(__float2half_rz(x));
    mine[2] = __half_as_ushort(__float2half_ru(x));
    mine[3] = __half_as_ushort(__float2half_rd(x));
    mine[4] = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    mine[5] = __bfloat16_as_ushort(__float2bfloat16_rz(x));
    mine[6] = __bfloat16_as_ushort(__float2bfloat16_ru(x));
    mine[7] = __bfloat16_as_ushort(__float2bfloat16_rd(x));
    half h(x);
    mine[8] = (unsigned char)h;
    mine[9] = (unsigned short)__half2short_rn(h);
    mine[10] = __half2ushort_ru(h);
    mine[11] = (unsigned short)__half2int_rd(h);
    mine[12] = __half_as_ushort(half((unsigned long long)__float2ull_rz(x)));
    mine[13] = (unsigned short)(bool)h;
    mine[14] = __half_as_ushort(__hadd_sat(h, __float2half(0.5f)));
    mine[15] = __bfloat16_as_ushort(__hmul_sat(__float2bfloat16(x), __float2bfloat16(0.5f)));
}

// Pairs of the bits of halves, and what names and operators make of them.
template <class Half, class Pair> __device__ void pairs_of(Pair a, Pair b, Pair one, unsigned int *mine) {
    auto bits = [](Pair v) { return *reinterpret_cast<unsigned int *>(&v); };
    mine[0] = bits(__hadd2_sat(a, b));
    mine[1] = bits(__hsub2_rn(a, b));
    mine[2] = bits(__hfma2_relu(a, b, one));
    mine[3] = bits(__hmax2_nan(a, b));
    mine[4] = bits(__hmin2(a, b));
    mine[5] = bits(__hne2(a, b));
    mine[6] = __hltu2_mask(a, b);
    mine[7] = __hbgeu2(a, b) + 2 * (a == b) + 4 * (a != b) + 8 * (a.x <= b.x) + 16 * __hne(a.y, b.y);
    mine[8] = bits(-a);
    mine[9] = bits(++a);
    a.x--;
    mine[10] = bits(+a);
    mine[11] = bits(__hisnan2(b));
    mine[12] = bits(__hmul2(a, b) / b);
}
extern "C" __global__ void pairs(const unsigned int *in, unsigned int *out) {
    const unsigned int *p = in + 2 * threadIdx.x, one = 0x3c003c00, one_b = 0x3f803f80;
    half2 a = __ldcs(reinterpret_cast<const half2 *>(p)), b = __ldca(reinterpret_cast<const half2 *>(p + 1));
    pairs_of<half>(a, b, *reinterpret_cast<const half2 *>(&one), out + 28 * threadIdx.x);
    nv_bfloat162 c = __ldcg(reinterpret_cast<const nv_bfloat162 *>(p)), d = __ldg(reinterpret_cast<const nv_bfloat162 *>(p + 1));
    pairs_of<nv_bfloat16>(c, d, *reinterpret_cast<const nv_bfloat162 *>(&one_b), out + 28 * threadIdx.x + 13);
    __stcs(reinterpret_cast<half2 *>(out + 28 * threadIdx.x + 26), a);
    __stcg(reinterpret_cast<uchar4 *>(out + 28 * threadIdx.x + 27), __ldg(reinterpret_cast<const uchar4 *>(p)));
}

// 8-bit floats: all of them as floats, and floats as them, with and without an end of the range.
extern "C" __global__ void eights(const float *in, float *wide, unsigned char *narrow) {
    unsigned int i = threadIdx.x;
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = b.__x = (unsigned char)i;
    wide[2 * i] = (float)a;
    wide[2 * i + 1] = float(b);
    narrow[4 * i] = __nv_fp8_e4m3(in[i]).__x;
    narrow[4 * i + 1] = __nv_cvt_float_to_fp8(in[i], __NV_NOSAT, __NV_E4M3);
    narrow[4 * i + 2] = __nv_fp8x2_e5m2(make_float2(in[i], 0)).__x & 0xff;
    narrow[4 * i + 3] = __nv_cvt_double_to_fp8(in[i], __NV_NOSAT, __NV_E5M2);
}

// d = a b + 2 c, once for each layout of a, b, and c and d.
template <class T, int M, int N, int K, class A, class B, class In, class Sum>
__device__ void product(const In *in_a, const In *in_b, const Sum *in_c, Sum *d, wmma::layout_t layout, unsigned int sums) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, A> a;
    wmma::fragment<wmma::matrix_b, M, N, K, T, B> b;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> c, doubled;
    constexpr bool rows_a = cuda::std::is_same<A, wmma::row_major>::value, rows_b = cuda::std::is_same<B, wmma::row_major>::value;
    wmma::load_matrix_sync(a, in_a, rows_a ? K : M);
    wmma::load_matrix_sync(b, in_b, rows_b ? N : K);
    wmma::load_matrix_sync(c, in_c, sums, layout);
    wmma::fill_fragment(doubled, Sum(2));
    for (int i = 0; i < c.num_elements; i++) doubled.x[i] = doubled.x[i] * c.x[i];
    wmma::mma_sync(c, a, b, doubled);
    wmma::store_matrix_sync(d, c, sums, layout);
}
template <class T, int M, int N, int K, class In, class Sum>
__device__ void products(const In *a, const In *b, const Sum *c, Sum *d) {
    for (int turned = 0; turned < 2; turned++) {
        wmma::layout_t layout = turned ? wmma::mem_col_major : wmma::mem_row_major;
        unsigned int sums = turned ? M : N;
        Sum *to = d + 4 * turned * M * N;
        product<T, M, N, K, wmma::row_major, wmma::row_major>(a, b, c, to, layout, sums);
        product<T, M, N, K, wmma::row_major, wmma::col_major>(a, b, c, to + M * N, layout, sums);
        product<T, M, N, K, wmma::col_major, wmma::row_major>(a, b, c, to + 2 * M * N, layout, sums);
        product<T, M, N, K, wmma::col_major, wmma::col_major>(a, b, c, to + 3 * M * N, layout, sums);
    }
}
#define PRODUCTS(name, T, M, N, K, In, Sum)                                                                    \
    extern "C" __global__ void name(const In *a, const In *b, const Sum *c, Sum *d) { products<T, M, N, K>(a, b, c, d); }
PRODUCTS(product_f16, half, 16, 16, 16, half, float)
PRODUCTS(product_f16_tall, half, 32, 8, 16, half, float)
PRODUCTS(product_f16_wide, half, 8, 32, 16, half, float)
PRODUCTS(product_f16_f16, half, 16, 16, 16, half, half)
PRODUCTS(product_f16_f16_wide, half, 8, 32, 16, half, half)
PRODUCTS(product_bf16, __nv_bfloat16, 16, 16, 16, __nv_bfloat16, float)
PRODUCTS(product_bf16_tall, __nv_bfloat16, 32, 8, 16, __nv_bfloat16, float)
PRODUCTS(product_tf32, wmma::precision::tf32, 16, 16, 8, float, float)
PRODUCTS(product_s8, signed char, 16, 16, 16, signed char, int)
PRODUCTS(product_u8_tall, unsigned char, 32, 8, 16, unsigned char, int)
PRODUCTS(product_s8_wide, signed char, 8, 32, 16, signed char, int)
PRODUCTS(product_f64, double, 8, 8, 4, double, double)

// What C++ leaves undefined and nvcc compiles as it stands: a variable is handed to a shuffle in which only another lane's counts, values of one
// type are looked at as another, and a function ends without a result in a case that never comes.
struct __align__(8) Entry { float value; int place; };
__device__ int sign_of(int x) {
    if (x < 0) return -1;
    if (x >= 0) return 1;
}
extern "C" __global__ void undefined(const int *in, int *out) {
    __shared__ int taken;
    __shared__ Entry entries[64];
    int i = threadIdx.x, lane = i % 32, base;
    if (i == 0) taken = 0;
    __syncthreads();
    if (lane == 0) base = atomicAdd(&taken, 32);
    base = __shfl_sync(0xffffffffu, base, 0);
    out[4 * i] = base % 32 + lane;
    entries[i].value = 1.0f;
    entries[i].place = i;
    unsigned long long *whole = reinterpret_cast<unsigned long long *>(&entries[i]);
    *whole = (*whole & 0xffffffff00000000ull) + (5ull << 32) + __float_as_uint(static_cast<float>(in[i]));
    out[4 * i + 1] = static_cast<int>(entries[i].value);
    out[4 * i + 2] = entries[i].place;
    out[4 * i + 3] = sign_of(in[i]);
    __syncthreads();
    if (i == 0) out[256] = taken;
}

#ifdef __clang__
// What does not commute: texts that are put together, as numbers.
struct Text {
    unsigned int hash, power;
};
struct Append {
    __device__ Text operator()(const Text &a, const Text &b) const { return Text{a.hash * b.power + b.hash, a.power * b.power}; }
};
__device__ Text letter(int value) { return Text{(unsigned int)value, 31}; }

// What a block of 80 threads has, of 4 numbers each, together: 10 numbers.
extern "C" __global__ void cub_reduce(const int *in, int *out) {
    typedef cub::BlockReduce<int, 80> Reduce;
    typedef cub::BlockReduce<cub::KeyValuePair<int, float>, 20, cub::BLOCK_REDUCE_RAKING, 2, 2> Winner;
    typedef cub::BlockReduce<Text, 80, cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY> Append_;
    __shared__ union {
        typename Reduce::TempStorage numbers;
        typename Winner::TempStorage winner;
        typename Append_::TempStorage text;
    } room;
    int i = (int)cg::this_thread_block().thread_rank(), all[4], value = in[4 * i];
    for (int item = 0; item < 4; item++) all[item] = in[4 * i + item];
    int sum = Reduce(room.numbers).Sum(value);
    __syncthreads();
    int some = Reduce(room.numbers).Sum(value, 45);
    __syncthreads();
    int least = Reduce(room.numbers).Reduce(value, cub::Min());
    __syncthreads();
    int most = Reduce(room.numbers).Reduce(all, cub::Max());
    __syncthreads();
    int whole = Reduce(room.numbers).Sum(all);
    __syncthreads();
    auto pair = cub::KeyValuePair<int, float>(i, (float)value);
    auto first = Winner(room.winner).Reduce(pair, cub::ArgMax());
    __syncthreads();
    auto last = Winner(room.winner).Reduce(pair, cub::ArgMin());
    __syncthreads();
    Text text = Append_(room.text).Reduce(letter(value), Append());
    int alone = cub::BlockReduce<int, 80>().Reduce(value, [](int a, int b) { return a ^ b; });
    if (i == 0) {
        int made[] = {sum, some, least, most, whole, first.key, last.key, (int)text.hash, alone, (int)last.value};
        for (int k = 0; k < 10; k++) out[k] = made[k];
    }
}

// 8 numbers for each of 64 threads: sums of parts of a warp, and scans.
extern "C" __global__ void cub_warps(const int *in, int *out) {
    typedef cub::WarpReduce<int, 16> Part;
    typedef cub::WarpReduce<int> Warp;
    typedef cub::WarpScan<int> Scan;
    typedef cub::WarpScan<Text, 8> Texts;
    __shared__ typename Part::TempStorage parts[4];
    __shared__ typename Warp::TempStorage warps[2];
    __shared__ typename Scan::TempStorage scans[2];
    __shared__ typename Texts::TempStorage texts[8];
    int i = threadIdx.x, value = in[i], *mine = out + 8 * i, aggregate;
    int part = Part(parts[i / 16]).Sum(value), few = Warp(warps[i / 32]).Reduce(value, cub::Max(), 7);
    mine[0] = i % 16 == 0 ? part : 0;
    mine[1] = i % 32 == 0 ? few : 0;
    Scan(scans[i / 32]).InclusiveSum(value, mine[2]);
    int exclusive;
    Scan(scans[i / 32]).ExclusiveSum(value, exclusive, aggregate);
    mine[3] = exclusive;
    mine[4] = aggregate;
    mine[5] = Scan(scans[i / 32]).Broadcast(value, 5);
    Text text;
    Texts(texts[i / 8]).ExclusiveScan(letter(value), text, letter(1), Append());
    mine[6] = (int)text.hash;
    Texts(texts[i / 8]).InclusiveScan(letter(value), text, Append());
    mine[7] = (int)text.hash;
}

struct Running {
    int total;
    __device__ int operator()(int aggregate) {
        int before = total;
        total += aggregate;
        return before;
    }
};

// 9 numbers for each of 80 threads.
extern "C" __global__ void cub_scans(const int *in, int *out) {
    typedef cub::BlockScan<int, 80> Scan;
    typedef cub::BlockScan<Text, 80, cub::BLOCK_SCAN_WARP_SCANS> Texts;
    __shared__ typename Scan::TempStorage room;
    __shared__ typename Texts::TempStorage texts;
    int i = threadIdx.x, value = in[i], made[9], aggregate;
    Scan(room).InclusiveSum(value, made[0]);
    __syncthreads();
    Scan(room).ExclusiveSum(value, made[1], aggregate);
    made[2] = aggregate;
    Running running{1000};
    for (int tile = 0; tile < 2; tile++) {
        __syncthreads();
        Scan(room).ExclusiveSum(value, made[3], running);
    }
    __syncthreads();
    Text pair[2] = {letter(value), letter(value + 1)}, with[2], before[2], all;
    Texts(texts).InclusiveScan(pair, with, Append(), all);
    __syncthreads();
    Texts(texts).ExclusiveScan(pair, before, letter(7), Append());
    made[4] = (int)with[0].hash;
    made[5] = (int)with[1].hash;
    made[6] = (int)before[0].hash;
    made[7] = (int)before[1].hash;
    made[8] = (int)all.hash;
    for (int k = 0; k < 9; k++) out[9 * i + k] = made[k];
}

// Tiles of 64 threads of 4 numbers each, of which some are missing: what each thread has of its own, and what is written back.
template <cub::BlockLoadAlgorithm Load, cub::BlockStoreAlgorithm Store>
__device__ void tile_of(const int *in, int *own, int *back, int valid) {
    typedef cub::BlockLoad<int, 64, 4, Load> Loads;
    typedef cub::BlockStore<int, 64, 4, Store> Stores;
    __shared__ typename Loads::TempStorage loads;
    __shared__ typename Stores::TempStorage stores;
    int items[4];
    Loads(loads).Load(in, items, valid, -1);
    for (int item = 0; item < 4; item++) own[4 * threadIdx.x + item] = items[item];
    Stores(stores).Store(back, items, valid);
    __syncthreads();
    Loads(loads).Load(in, items);
    for (int &item : items) item = -item;
    Stores(stores).Store(back + 256, items);
}
extern "C" __global__ void cub_tiles(const int *in, int *own, int *back) {
    tile_of<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(in, own, back, 201);
    tile_of<cub::BLOCK_LOAD_STRIPED, cub::BLOCK_STORE_STRIPED>(in, own + 256, back + 512, 201);
    tile_of<cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>(in, own + 512, back + 1024, 201);
    tile_of<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(in, own + 768, back + 1536, 201);
    tile_of<cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>(in, own + 1024, back + 2048, 201);
}

// Keys of 64 threads, 3 each: floats from the largest on with their places, and integers by some of their bits, striped.
extern "C" __global__ void cub_sorts(const float *keys, float *sorted, int *places, const int *numbers, int *ordered) {
    typedef cub::BlockRadixSort<float, 64, 3, int> Pairs;
    typedef cub::BlockRadixSort<int, 64, 3> Numbers;
    __shared__ typename Pairs::TempStorage pairs;
    __shared__ typename Numbers::TempStorage room;
    float mine[3];
    int place[3], number[3];
    for (int item = 0; item < 3; item++) {
        place[item] = 3 * threadIdx.x + item;
        mine[item] = keys[place[item]];
        number[item] = numbers[place[item]];
    }
    Pairs(pairs).SortDescending(mine, place);
    for (int item = 0; item < 3; item++) {
        sorted[3 * threadIdx.x + item] = mine[item];
        places[3 * threadIdx.x + item] = place[item];
    }
    Numbers(room).Sort(number);
    for (int item = 0; item < 3; item++) ordered[3 * threadIdx.x + item] = number[item];
    __syncthreads();
    Numbers(room).SortBlockedToStriped(number, 1, 4);
    for (int item = 0; item < 3; item++) ordered[192 + threadIdx.x + 64 * item] = number[item];
}
#endif
