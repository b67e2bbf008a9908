// Attention of one new token of each sequence over a paged cache, with grouped queries: the step of decoding.
//
//   out[b, h] = sum_t p[t] v[t],   p = softmax_t(q[b, h] . k[t] / sqrt(head_dim)),   t = 0 .. lengths[b] - 1,
//
// where k and v are of the head h / (heads / kv_heads). The new token's key and value are in the cache already.
//
// Buffers: q, out [batch, heads, head_dim] f32. keys, values [blocks, kv_heads, block_len, head_dim] in one of the formats
//   f32; f16, bf16 as 16 bits; int8: value = code * scale; int4: two a byte, the first in the lower half, value = (half byte - 8) * scale
// with key_scales, value_scales [blocks, kv_heads, block_len] f32 for int8 and int4, and not read for others. table [batch, table_len] int32:
// the block of tokens i * block_len and on, for as many as the sequence has. lengths [batch] int32, from 0. Scratch, if splits > 1:
// partial [batch, heads, splits, head_dim] and lse [batch, heads, splits], f32, and counters [batch, kv_heads] of 32 bits, which are zero before a
// launch, and after it. keys, values, q, out and partial at multiples of 16 bytes.
//
// There are two fast versions, on tiles and on lanes, and a plain one, which takes any shape. Tiles ask for head_dim D, at
// most 8 query heads for a head of keys, fewer than 2^32 rows in the cache, and table_len * block_len * block_len below 2^32; they read
// table to its end or that of a part, and with int8 and int4 lose scales of values below 2^-60. Lanes ask for head_dim a multiple of 8 and not
// above 32 * E, where E = 8 elements a lane, and 4 for f32 and for groups beyond 8; heads / kv_heads at most 16.
//
// Launches, F = f32, f16, bf16, int8, int4; D = 64 or 128, with int8 and int4 128; G = 8, or 16 with f16, not less than heads / kv_heads:
//   paged_decode_F_dD         grid: (splits, kv_heads, batch)   block: 32 to 256, a multiple of 32
//                             dynamic shared bytes: D * 32 (bf16: D * 48) + (block / 32) * W, W = D * 192 for f32, f16 and bf16, 25344
//                             for int8, 13056 for int4
//   paged_decode_F_gG         grid: (splits, kv_heads, batch)   block: 32 to 256, a multiple of 32
//                             dynamic shared bytes: (block / 32) * G * (head_dim * 2 + 40) * 4
//   paged_decode_plain_f16    grid: (heads, batch)              block: 32 to 256, a multiple of 32
// Compute capability 8.0 or higher; 7.0 without tiles.
//
// Method. A block takes a part of a sequence's tokens and all query heads of one head of keys: a cached byte is read once for the whole
// group. Softmax is taken on the way (Milakov and Gimelshein), in powers of two, by each warp over its own tokens; warps are put together
// at the end. Parts are exact: each leaves its output and the binary logarithm of its sum, by which the block that is
// done last weighs them.
//
// Tiles: a warp copies tiles of 8 (f32), 16 or 32 tokens to shared memory, two of them under way while it works on the third, and waits for no
// other warp.
// Tensor cores, of all but f32: scores are the product of queries and keys, outputs that of weights and values, 16 x 8 x 16 at a time. Queries and weights
// are f32 numbers split into two of f16 (three of bf16), which are other rows of the same product, so that only digits beyond those of f32
// are lost. Codes are exact as f16; their scales go to scores and weights, which are kept in the range of f16 by the largest so far.
// f32: tiles without tensor cores, which have not the digits. For scores a lane has 8 elements of all queries in registers. Lanes that share a
// token add up their products, each time for half as many of them, and each is left with one or two scores, of which it takes softmax.
// Weights go to all lanes by shared memory, and a lane has 4 elements of all outputs.
// Lanes: a warp takes 32 tokens at a time. Each lane looks one up in the table, and its scales; then head_dim / E lanes (to the next
// power of two) share a token, its elements E by E in registers, with as many tokens side by side as a warp has room for: what they read is
// contiguous as far as the block is. The scores of 4 such steps (2 for wide groups) are taken before their values are read.
//
// Traffic: keys, values and scales of the tokens once; 4 bytes of table a token; q once a split; out. Parts add 8 bytes for each element of
// out and each split, and one to two microseconds. On tiles one block of 128 threads for each of 132 multiprocessors
// keeps memory busy, and splits beyond that do not pay; where sequences and heads alone are more, two blocks share one. int4 is more to compute
// than to read: where blocks are few and splits long, 256 threads are better. Sums are f32, in one order: results do not
// depend on that of blocks or warps. Shared memory has no bank conflicts, on lanes if head_dim is a multiple of 64.
//
// Kwon et al. 2023, "PagedAttention", https://arxiv.org/abs/2309.06180; Ainslie et al. 2023, "GQA", https://arxiv.org/abs/2305.13245; Dao et
// al. 2023, "Flash-Decoding for long-context inference". What `paged_decode.ptx` is made by, and what runs it without a GPU, is in
// README.md beside this file; with nvcc: nvcc -std=c++17 -arch=sm_80 -ptx paged_decode.cu.

#include <cuda_fp16.h>

constexpr int LANES = 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr int MAX_THREADS = 256;
constexpr int MAX_WARPS = MAX_THREADS / LANES;
constexpr float LOG2_E = 1.44269504088896340736f;
// What is no score: differences with it are not NaN, as they would be with -inf.
constexpr float NO_SCORE = -3.402823466e38f;

static_assert(MAX_WARPS * LANES == MAX_THREADS, "blocks are whole warps");

// To some 22 digits; 0 below 2^-126.
__device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// By its bits: the name for it is in a header that not every compiler has.
__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// -- Formats -------------------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float half_bits(unsigned bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }

struct F32 {
    static constexpr int BITS = 32;
    static constexpr bool SCALED = false;
    // The i-th element of some words.
    static __device__ __forceinline__ float element(const unsigned *words, int i) { return __uint_as_float(words[i]); }
};

struct F16 {
    static constexpr int BITS = 16;
    static constexpr bool SCALED = false;
    static __device__ __forceinline__ float element(const unsigned *words, int i) { return half_bits(words[i / 2] >> i % 2 * 16 & 0xffff); }
};

struct Bf16 {
    static constexpr int BITS = 16;
    static constexpr bool SCALED = false;
    static __device__ __forceinline__ float element(const unsigned *words, int i) {
        return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000u);
    }
};

struct Int8 {
    static constexpr int BITS = 8;
    static constexpr bool SCALED = true;
    static __device__ __forceinline__ float element(const unsigned *words, int i) {
        return static_cast<float>(static_cast<int>(words[i / 4] << (24 - i % 4 * 8)) >> 24);
    }
};

struct Int4 {
    static constexpr int BITS = 4;
    static constexpr bool SCALED = true;
    static __device__ __forceinline__ float element(const unsigned *words, int i) {
        return static_cast<float>(static_cast<int>(words[i / 8] >> i % 8 * 4 & 0xf) - 8);
    }
};

// `BYTES` at a multiple of as many, to words; zeros in the rest of a word.
template <int BYTES> __device__ __forceinline__ void load(unsigned *to, const unsigned char *from) {
    static_assert(BYTES == 16 || BYTES == 8 || BYTES == 4 || BYTES == 2, "a lane reads at once what it reads");
    if (BYTES == 16) {
        const uint4 words = *reinterpret_cast<const uint4 *>(from);
        to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
    } else if (BYTES == 8) {
        const uint2 words = *reinterpret_cast<const uint2 *>(from);
        to[0] = words.x, to[1] = words.y;
    } else if (BYTES == 4) {
        to[0] = *reinterpret_cast<const unsigned *>(from);
    } else {
        to[0] = *reinterpret_cast<const unsigned short *>(from);
    }
}

// -- Plain: a block for each query head, so that a cached byte is read by each of a group; a token at a time in a warp. -----------------

struct Shared {
    float maxima[MAX_WARPS];
    float sums[MAX_WARPS];
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL, value, lanes);
    return value;
}

// Keys are read three times: for the maximum, for the sum, and again for the weights of values.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
paged_decode_plain_f16(const float *q, const unsigned short *keys, const unsigned short *values, const int *table, const int *lengths, float *out,
                       int heads, int kv_heads, int head_dim, int block_len, int table_len) {
    __shared__ Shared shared;
    const int head = blockIdx.x, batch = blockIdx.y, lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const int kv_head = head / (heads / kv_heads), length = lengths[batch];
    const long long place = (static_cast<long long>(batch) * heads + head) * head_dim;
    auto row = [&](int token) {
        const long long block = table[static_cast<long long>(batch) * table_len + token / block_len];
        return ((block * kv_heads + kv_head) * block_len + token % block_len) * head_dim;
    };
    auto score = [&](int token) {
        float sum = 0.0f;
        for (int d = lane; d < head_dim; d += LANES) sum += q[place + d] * half_bits(keys[row(token) + d]);
        return warp_sum(sum) / sqrtf(static_cast<float>(head_dim));
    };
    float maximum = NO_SCORE, sum = 0.0f;
    for (int token = warp; token < length; token += warps) maximum = fmaxf(maximum, score(token));
    shared.maxima[warp] = maximum;
    __syncthreads();
    for (int other = 0; other < warps; ++other) maximum = fmaxf(maximum, shared.maxima[other]);
    for (int token = warp; token < length; token += warps) sum += expf(score(token) - maximum);
    shared.sums[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int other = 0; other < warps; ++other) sum += shared.sums[other];
    for (int start = 0; start < head_dim; start += blockDim.x) {
        const int d = start + static_cast<int>(threadIdx.x);
        float o = 0.0f;
        for (int token = 0; token < length; ++token) {
            const float p = expf(score(token) - maximum) / sum;
            if (d < head_dim) o += p * half_bits(values[row(token) + d]);
        }
        if (d < head_dim) out[place + d] = o;
    }
}

// -- Parts ---------------------------------------------------------------------------------------------------------------------------

// Parts whose reads a thread has under way.
constexpr int MERGED = 8;

// Of the device, as __threadfence, but not in one order with all others.
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// By the block that is done last of those of a sequence and a head of keys: the parts of its query heads put together, by what their sums weigh.
// The counter is left at zero. A thread takes four elements of a head at a time.
__device__ __forceinline__ void merge(const float *partial, const float *lse, unsigned *counter, float *out, long long first_head, int group,
                                      int head_dim, int splits) {
    __shared__ bool is_last;
    // What the block has written comes before what it adds to the counter.
    __syncthreads();
    if (threadIdx.x == 0) {
        fence();
        is_last = atomicInc(counter, splits - 1) == static_cast<unsigned>(splits) - 1;
        fence();
    }
    __syncthreads();
    if (!is_last) return;
    const int fours = head_dim / 4;
    for (int i = threadIdx.x; i < group * fours; i += blockDim.x) {
        const long long head = first_head + i / fours;
        const int four = i % fours;
        const float *const sums = lse + head * splits;
        const float4 *const outputs = reinterpret_cast<const float4 *>(partial + head * splits * head_dim) + four;
        float most = NO_SCORE, all = 0.0f;
        float4 o = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int first = 0; first < splits; first += MERGED) {
            float4 parts[MERGED];
            float weights[MERGED];
#pragma unroll
            for (int s = 0; s < MERGED; ++s) {
                const bool has = first + s < splits;
                weights[s] = has ? __ldcg(sums + first + s) : minus_infinity();
                parts[s] = has ? __ldcg(outputs + static_cast<long long>(first + s) * fours) : float4{0.0f, 0.0f, 0.0f, 0.0f};
            }
            float now = most;
#pragma unroll
            for (int s = 0; s < MERGED; ++s) now = fmaxf(now, weights[s]);
            const float down = power_of_2(most - now);
            most = now;
            all *= down;
            o.x *= down, o.y *= down, o.z *= down, o.w *= down;
#pragma unroll
            for (int s = 0; s < MERGED; ++s) {
                const float weight = power_of_2(weights[s] - most);
                all += weight;
                o.x += parts[s].x * weight, o.y += parts[s].y * weight, o.z += parts[s].z * weight, o.w += parts[s].w * weight;
            }
        }
        // A sequence without tokens has nothing but -inf, and its output is 0.
        const float by = all == 0.0f ? 0.0f : 1.0f / all;
        o.x *= by, o.y *= by, o.z *= by, o.w *= by;
        reinterpret_cast<float4 *>(out)[head * fours + four] = o;
    }
}

// -- Lanes ---------------------------------------------------------------------------------------------------------------------------

// Where element `j` of lane `lane` lies in the shared output of a head. Four elements of a lane are beside those of the next, so that
// stores of 16 bytes and reads column by column are both without conflicts.
template <int E> __device__ __forceinline__ int shared_place(int lane, int j, int width) { return j / 4 * (width * 4 + 16) + lane * 4 + j % 4; }

// One read of keys and values for a group of up to G query heads. Costs registers, 2 G E for queries and outputs, and lanes where
// head_dim / E is no power of two.
template <typename F, int G>
__device__ __forceinline__ void decode(const float *__restrict__ q, const unsigned char *__restrict__ keys,
                                       const unsigned char *__restrict__ values, const float *__restrict__ key_scales,
                                       const float *__restrict__ value_scales, const int *__restrict__ table,
                                       const int *__restrict__ lengths, float *out, float *partial, float *lse, unsigned *counters, int heads,
                                       int kv_heads, int head_dim, int block_len, int table_len, int split_len) {
    constexpr int E = F::BITS == 32 || G > 8 ? 4 : 8;
    // Steps whose keys, and then values, are read together: as many as there are registers for.
    constexpr int STEPS = G > 8 ? 2 : 4;
    constexpr int BYTES = E * F::BITS / 8, WORDS = (BYTES + 3) / 4;
    // Outputs [warps, G, row], then maxima and sums [warps, G].
    extern __shared__ float4 shared_outputs[];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const int split = blockIdx.x, splits = gridDim.x, kv_head = blockIdx.y, batch = blockIdx.z;
    const int group = heads / kv_heads;
    int width = 1;
    while (width * E < head_dim) width *= 2;
    if (group > G || width > LANES || head_dim % E != 0) __trap();
    const int row = (E / 4) * (width * 4 + 16);
    float *const outputs = reinterpret_cast<float *>(shared_outputs);
    float *const maxima = outputs + warps * G * row, *const sums = maxima + warps * G;

    const int side = LANES / width, mine = lane % width, slot = lane / width;
    const bool used = mine * E < head_dim;
    const long long first_head = static_cast<long long>(batch) * heads + kv_head * group;
    const float scale = LOG2_E / sqrtf(static_cast<float>(head_dim));
    // Queries come once for all warps, by way of the shared memory that outputs take in the end.
    for (int i = threadIdx.x; i < group * head_dim / 4; i += blockDim.x) {
        const int h = i * 4 / head_dim, d = i * 4 % head_dim;
        const float4 from = *reinterpret_cast<const float4 *>(q + first_head * head_dim + i * 4);
        float4 to;
        to.x = from.x * scale, to.y = from.y * scale, to.z = from.z * scale, to.w = from.w * scale;
        *reinterpret_cast<float4 *>(outputs + h * row + shared_place<E>(d / E, d % E, width)) = to;
    }
    __syncthreads();
    float query[G][E], output[G][E], maximum[G], sum[G];
#pragma unroll
    for (int h = 0; h < G; ++h) {
        maximum[h] = NO_SCORE;
        sum[h] = 0.0f;
#pragma unroll
        for (int j = 0; j < E; ++j) query[h][j] = output[h][j] = 0.0f;
        if (h < group && used) {
#pragma unroll
            for (int j = 0; j < E; j += 4) {
                const float4 four = *reinterpret_cast<const float4 *>(outputs + h * row + shared_place<E>(mine, j, width));
                query[h][j] = four.x, query[h][j + 1] = four.y, query[h][j + 2] = four.z, query[h][j + 3] = four.w;
            }
        }
    }
    __syncthreads();

    const int length = lengths[batch];
    const int end = min(length, (split + 1) * split_len);
    const int row_bytes = head_dim * F::BITS / 8;
    for (int start = split * split_len + warp * LANES; start < end; start += warps * LANES) {
        // Each lane looks up one of 32 tokens.
        const int token = start + lane;
        long long token_row = 0;
        float key_scale = 0.0f, value_scale = 0.0f;
        if (token < end) {
            const long long block = table[static_cast<long long>(batch) * table_len + token / block_len];
            token_row = (block * kv_heads + kv_head) * block_len + token % block_len;
            if (F::SCALED) {
                key_scale = key_scales[token_row];
                value_scale = value_scales[token_row];
            }
        }
        for (int step = 0; step < width && start + step * side < end; step += STEPS) {
            unsigned words[STEPS][WORDS];
            long long place[STEPS];
            bool has[STEPS];
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const int from = (step + s) * side + slot;
                // Where the lanes of a token are fewer than the steps, some steps are beyond the 32 tokens.
                const int upper = __shfl_sync(ALL, static_cast<int>(token_row >> 32), from);
                const unsigned lower = __shfl_sync(ALL, static_cast<int>(token_row), from);
                has[s] = used && from < LANES && start + from < end;
                place[s] = (static_cast<long long>(upper) << 32 | lower) * row_bytes + mine * BYTES;
#pragma unroll
                for (int w = 0; w < WORDS; ++w) words[s][w] = 0;
                if (has[s]) load<BYTES>(words[s], keys + place[s]);
            }
            float scores[STEPS][G];
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
#pragma unroll
                for (int h = 0; h < G; ++h) {
                    scores[s][h] = 0.0f;
                    if (h < group) {
#pragma unroll
                        for (int j = 0; j < E; ++j) scores[s][h] += query[h][j] * F::element(words[s], j);
                    }
                }
            }
            for (int lanes = width / 2; lanes > 0; lanes /= 2) {
#pragma unroll
                for (int h = 0; h < G; ++h) {
                    if (h < group) {
#pragma unroll
                        for (int s = 0; s < STEPS; ++s) scores[s][h] += __shfl_xor_sync(ALL, scores[s][h], lanes);
                    }
                }
            }
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const int from = (step + s) * side + slot;
                const bool valid = from < LANES && start + from < end;
                const float by = F::SCALED ? __shfl_sync(ALL, key_scale, from) : 1.0f;
#pragma unroll
                for (int h = 0; h < G; ++h) scores[s][h] = valid ? scores[s][h] * by : minus_infinity();
            }
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
#pragma unroll
                for (int w = 0; w < WORDS; ++w) words[s][w] = 0;
                if (has[s]) load<BYTES>(words[s], values + place[s]);
            }
#pragma unroll
            for (int h = 0; h < G; ++h) {
                if (h < group) {
                    float most = maximum[h];
#pragma unroll
                    for (int s = 0; s < STEPS; ++s) most = fmaxf(most, scores[s][h]);
                    const float down = power_of_2(maximum[h] - most);
                    maximum[h] = most;
                    sum[h] *= down;
#pragma unroll
                    for (int j = 0; j < E; ++j) output[h][j] *= down;
#pragma unroll
                    for (int s = 0; s < STEPS; ++s) {
                        scores[s][h] = power_of_2(scores[s][h] - most);
                        sum[h] += scores[s][h];
                    }
                }
            }
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const float by = F::SCALED ? __shfl_sync(ALL, value_scale, (step + s) * side + slot) : 1.0f;
#pragma unroll
                for (int h = 0; h < G; ++h) {
                    if (h < group) {
                        const float p = scores[s][h] * by;
#pragma unroll
                        for (int j = 0; j < E; ++j) output[h][j] += p * F::element(words[s], j);
                    }
                }
            }
        }
    }

    // Over the tokens side by side, then over the warps.
    for (int lanes = width; lanes < LANES; lanes *= 2) {
#pragma unroll
        for (int h = 0; h < G; ++h) {
            if (h < group) {
                const float most = fmaxf(maximum[h], __shfl_xor_sync(ALL, maximum[h], lanes));
                const float down = power_of_2(maximum[h] - most);
                maximum[h] = most;
                sum[h] *= down;
                sum[h] += __shfl_xor_sync(ALL, sum[h], lanes);
#pragma unroll
                for (int j = 0; j < E; ++j) {
                    output[h][j] *= down;
                    output[h][j] += __shfl_xor_sync(ALL, output[h][j], lanes);
                }
            }
        }
    }
#pragma unroll
    for (int h = 0; h < G; ++h) {
        if (h < group) {
            if (slot == 0) {
#pragma unroll
                for (int j = 0; j < E; j += 4) {
                    float4 four;
                    four.x = output[h][j], four.y = output[h][j + 1], four.z = output[h][j + 2], four.w = output[h][j + 3];
                    *reinterpret_cast<float4 *>(outputs + (warp * G + h) * row + shared_place<E>(mine, j, width)) = four;
                }
            }
            if (lane == 0) {
                maxima[warp * G + h] = maximum[h];
                sums[warp * G + h] = sum[h];
            }
        }
    }
    __syncthreads();
    for (int h = 0; h < group; ++h) {
        float most = NO_SCORE, all = 0.0f;
        for (int other = 0; other < warps; ++other) most = fmaxf(most, maxima[other * G + h]);
        for (int other = 0; other < warps; ++other) all += sums[other * G + h] * power_of_2(maxima[other * G + h] - most);
        const long long place = (first_head + h) * splits + split;
        float *const to = splits > 1 ? partial : out;
        for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
            float o = 0.0f;
            for (int other = 0; other < warps; ++other) {
                o += outputs[(other * G + h) * row + shared_place<E>(d / E, d % E, width)] * power_of_2(maxima[other * G + h] - most);
            }
            // Of no tokens the output is 0, and so is its weight.
            to[place * head_dim + d] = all == 0.0f ? 0.0f : o / all;
        }
        if (splits > 1 && threadIdx.x == 0) lse[place] = all == 0.0f ? minus_infinity() : most + log2f(all);
    }
    if (splits > 1) merge(partial, lse, counters + batch * kv_heads + kv_head, out, first_head, group, head_dim, splits);
}

#define PAGED_DECODE(NAME, F, G)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS)                                                                            \
    paged_decode_##NAME##_g##G(const float *q, const unsigned char *keys, const unsigned char *values, const float *key_scales,          \
                               const float *value_scales, const int *table, const int *lengths, float *out, float *partial, float *lse,   \
                               unsigned *counters, int heads,                                                                           \
                               int kv_heads, int head_dim, int block_len, int table_len, int split_len) {                                \
        decode<F, G>(q, keys, values, key_scales, value_scales, table, lengths, out, partial, lse, counters, heads, kv_heads, head_dim, block_len,          \
                     table_len, split_len);                                                                                              \
    }

// One for each format, and one for wide groups. Others are a line each.
PAGED_DECODE(f32, F32, 8)
PAGED_DECODE(f16, F16, 8)
PAGED_DECODE(f16, F16, 16)
PAGED_DECODE(bf16, Bf16, 8)
PAGED_DECODE(int8, Int8, 8)
PAGED_DECODE(int4, Int4, 8)

// -- Tensor cores --------------------------------------------------------------------------------------------------------------------

// Query heads of a head of keys: the rows 0 to 7 of a matrix of the tensor cores.
constexpr int ROWS = 8;
// Asynchronous copies of a line of memory go to one of shared memory, or sectors would be asked for twice.
constexpr int LINE_BYTES = 128;
// Tiles of a warp that shared memory has room for; all but one are under way.
constexpr int STAGES = 3;
// Weights are 2^15 of the largest so far, near the most that f16 holds, so that small ones keep their digits.
constexpr float LARGEST_WEIGHT = 15.0f;

__device__ __forceinline__ unsigned shared_address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// For what is read once: the cache need not keep it.
__device__ __forceinline__ unsigned long long evict_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// 16 bytes from global to shared memory, or zeros.
__device__ __forceinline__ void copy_16(unsigned to, const unsigned char *from, bool has, unsigned long long policy) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
                 "r"(has ? 16 : 0), "l"(policy)
                 : "memory");
}

__device__ __forceinline__ void copy_4(unsigned to, const float *from, bool has) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(has ? 4 : 0)
                 : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most so many groups of copies are under way.
template <int GROUPS> __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory"); }

__device__ __forceinline__ uint4 read_16(unsigned at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    return v;
}

__device__ __forceinline__ uint2 read_8(unsigned at) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(at) : "memory");
    return v;
}

// The compiler may make two of a store of two.
__device__ __forceinline__ void write_8(unsigned at, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(x), "f"(y) : "memory");
}

// Four matrices of 8 tokens by 8 elements, so that a lane gets an element of two tokens.
__device__ __forceinline__ void read_transposed(unsigned (&to)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ unsigned subtract_halves(unsigned a, unsigned b) {
    unsigned d;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

__device__ __forceinline__ unsigned fma_halves(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// Halves of 1024: a code in their last bits adds as much.
constexpr unsigned MAGIC = 0x64006400;

// How the tensor cores take each format: its type there, and what f32 numbers are split into so that nothing of them is lost.
struct TensorHalf {
    static constexpr int PARTS = 2;
    static constexpr bool SUBNORMAL = false;
    // A power of two times the query has its largest element near the largest of f16.
    static constexpr bool NORMAL = true;
    static __device__ __forceinline__ void multiply(float (&c)[4], const unsigned *a, unsigned b0, unsigned b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void split(float x, float y, unsigned (&parts)[PARTS]) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(parts[0]) : "f"(y), "f"(x));
        const float x_rest = x - half_bits(parts[0] & 0xffff), y_rest = y - half_bits(parts[0] >> 16);
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(parts[1]) : "f"(y_rest), "f"(x_rest));
    }
};

struct TensorBf16 {
    static constexpr int PARTS = 3;
    static constexpr bool SUBNORMAL = false;
    static constexpr bool NORMAL = false;
    static __device__ __forceinline__ void multiply(float (&c)[4], const unsigned *a, unsigned b0, unsigned b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void split(float x, float y, unsigned (&parts)[PARTS]) {
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(parts[part]) : "f"(y), "f"(x));
            x -= __uint_as_float(parts[part] << 16);
            y -= __uint_as_float(parts[part] & 0xffff0000u);
        }
    }
};

// Of a format: tokens of a tile; where a token's 16 bytes of keys or values, its `chunk`, lie in the tile, so that neither copies nor reads
// have bank conflicts; and the pairs that a lane's codes are in products. Places are linear over bits: that of an exclusive or of tokens or
// chunks is the exclusive or of places. Which elements stand together in a product is free for keys, as long as queries do the same: lanes
// take 16 bytes in one read. `SPREAD` puts queries where their writes have no conflicts either.
template <typename F> struct Tensor;

struct Tensor16 {
    static constexpr int TILE = 16;
    static constexpr int SPREAD = 4;
    template <int D> static __device__ __forceinline__ int key_place(int token, int chunk) {
        return token * D * 2 + (chunk ^ (token & 1) * 4) * 16;
    }
    template <int D> static __device__ __forceinline__ int value_place(int token, int chunk) {
        return token * D * 2 + (chunk ^ (token & 7)) * 16;
    }
    static __device__ __forceinline__ void key_pairs(uint4 words, unsigned (&pairs)[2][2]) {
        pairs[0][0] = words.x, pairs[0][1] = words.y, pairs[1][0] = words.z, pairs[1][1] = words.w;
    }
};
template <> struct Tensor<F16> : Tensor16, TensorHalf {};
template <> struct Tensor<Bf16> : Tensor16, TensorBf16 {};

template <> struct Tensor<Int8> : TensorHalf {
    static constexpr int TILE = 32;
    static constexpr int SPREAD = 2;
    template <int D> static __device__ __forceinline__ int key_place(int token, int chunk) {
        return token * D + (chunk ^ (token & 1) * 4) * 16;
    }
    template <int D> static __device__ __forceinline__ int value_place(int token, int chunk) {
        return token * D + (chunk ^ (token & 6)) * 16;
    }
    // Bytes that are a code and 128, two of them to halves.
    static __device__ __forceinline__ unsigned halves(unsigned bytes, unsigned selector) {
        return subtract_halves(__byte_perm(bytes, MAGIC >> 8, selector), 0x64806480);
    }
    static __device__ __forceinline__ void key_pairs(uint4 words, unsigned (&pairs)[4][2]) {
        const unsigned from[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned bytes = from[i] ^ 0x80808080;
            pairs[i][0] = halves(bytes, 0x4140);
            pairs[i][1] = halves(bytes, 0x4342);
        }
    }
    // Four elements of two tokens, `four * 4` and on.
    static __device__ __forceinline__ void value_pairs(const unsigned (&a)[4], const unsigned (&b)[4], int four, unsigned (&pairs)[4]) {
        const unsigned first = __byte_perm(a[four], b[four], 0x5140) ^ 0x80808080, second = __byte_perm(a[four], b[four], 0x7362) ^ 0x80808080;
        pairs[0] = halves(first, 0x4140), pairs[1] = halves(first, 0x4342);
        pairs[2] = halves(second, 0x4140), pairs[3] = halves(second, 0x4342);
    }
};

template <> struct Tensor<Int4> : TensorHalf {
    static constexpr int TILE = 32;
    static constexpr int SPREAD = 1;
    template <int D> static __device__ __forceinline__ int key_place(int token, int chunk) { return token * (D / 2) + chunk * 16; }
    template <int D> static __device__ __forceinline__ int value_place(int token, int chunk) {
        static_assert(D == 128, "two tokens fill all banks");
        return token / 2 * 128 + ((token % 2 * 4 + chunk) ^ (token & 6)) * 16;
    }
    // Half bytes i and i + 4, less 8.
    static __device__ __forceinline__ void halves(unsigned bytes, unsigned (&to)[4]) {
        const unsigned above = bytes >> 8;
        to[0] = subtract_halves((bytes & 0x000f000f) | MAGIC, 0x64086408);
        // 1024 and 16 times a code, of which a sixteenth is 64 and the code.
        to[1] = fma_halves((bytes & 0x00f000f0) | MAGIC, 0x2c002c00, 0xd480d480);
        to[2] = subtract_halves((above & 0x000f000f) | MAGIC, 0x64086408);
        to[3] = fma_halves((above & 0x00f000f0) | MAGIC, 0x2c002c00, 0xd480d480);
    }
    // Four elements of two tokens, `four * 4` and on.
    static __device__ __forceinline__ void value_pairs(const unsigned (&a)[2], const unsigned (&b)[2], int four, unsigned (&pairs)[4]) {
        halves(__byte_perm(a[four / 2], b[four / 2], four % 2 == 0 ? 0x5410 : 0x7632), pairs);
    }
    // Bits of keys are taken for subnormal halves: 2^-24 (code + 8), and 16 times that for the second of a byte. Queries make up for it.
    static constexpr bool SUBNORMAL = true;
    static __device__ __forceinline__ void key_pairs(uint4 words, unsigned (&pairs)[8][2]) {
        const unsigned from[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned above = from[i] >> 8;
            pairs[2 * i][0] = from[i] & 0x000f000f, pairs[2 * i][1] = from[i] & 0x00f000f0;
            pairs[2 * i + 1][0] = above & 0x000f000f, pairs[2 * i + 1][1] = above & 0x00f000f0;
        }
    }
};

// The least power of two above |x|, by its exponent; of tiny ones and 0 that of 2^-60, so that sums stay finite.
__device__ __forceinline__ float binary_exponent(float x) {
    // Beside 2^23, in the digits of ones.
    return fmaxf(__uint_as_float(0x4b000000u | (__float_as_uint(x) >> 23 & 0xff)) - 8388734.0f, -60.0f);
}

// Where a sequence's tokens are. `reach` is how far its entries of the table are looked at: what is beyond its length is not used.
struct Pages {
    const int *table;
    int reach, block_len;
    unsigned inverse;
    int kv_heads, kv_head;

    __device__ __forceinline__ Pages(const int *table, int table_len, int block_len, int part_end, int kv_heads)
        : table(table + static_cast<long long>(blockIdx.z) * table_len), reach(min(part_end, table_len * block_len)), block_len(block_len),
          inverse(0xffffffffu / block_len + 1), kv_heads(kv_heads), kv_head(blockIdx.y) {}
    __device__ __forceinline__ int page(int token) const {
        return block_len == 1 ? token : static_cast<int>(static_cast<unsigned long long>(token) * inverse >> 32);
    }
    __device__ __forceinline__ int block(int token, bool is_mine) const { return token < reach && is_mine ? table[page(token)] : 0; }
    __device__ __forceinline__ unsigned row(int token, int block) const {
        return (static_cast<unsigned>(block) * kv_heads + kv_head) * block_len + (token - page(token) * block_len);
    }
};

// The tiles that a warp copies, STAGES - 1 of them before it works on the first, of TILE tokens and STAGE bytes of shared memory each, from `tiles`
// on. Of a tile's tokens a lane looks up one, a tile before they are copied. `copy(token, block, to)` begins to copy the tile at a token.
template <int TILE, int STAGE> struct Ahead {
    const Pages &pages;
    int token, step, found[STAGES];
    unsigned tiles, to;

    __device__ __forceinline__ Ahead(const Pages &pages, int token, int step, unsigned tiles)
        : pages(pages), token(token), step(step), tiles(tiles), to(tiles + (STAGES - 1) * STAGE) {
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage) found[stage] = look_up(token + stage * step);
    }
    __device__ __forceinline__ int look_up(int from) const {
        const int lane = threadIdx.x % LANES;
        return pages.block(from + lane, lane < TILE);
    }
    __device__ __forceinline__ unsigned after(unsigned tile) const { return tile + STAGE == tiles + STAGES * STAGE ? tiles : tile + STAGE; }

    template <typename Copy> __device__ __forceinline__ void start(int end, Copy copy) {
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; ++stage) {
            if (token + stage * step < end) copy(token + stage * step, found[stage], tiles + stage * STAGE);
            commit();
        }
        token += (STAGES - 1) * step;
        found[0] = found[STAGES - 1];
    }
    // When all lanes are done with the tile that is copied over; all have copied the one that is worked on then.
    template <typename Copy> __device__ __forceinline__ void next(int end, Copy copy) {
        wait<STAGES - 2>();
        __syncwarp();
        if (token < end) {
            copy(token, found[0], to);
            token += step;
            found[0] = look_up(token);
        }
        commit();
        to = after(to);
    }
};

// Where 4 elements of a head's output lie in what a warp leaves.
template <int BITS> __device__ __forceinline__ int output_place(int head, int four) {
    return BITS == 32 ? four : four ^ (BITS == 16 ? head % 4 * 2 : four / 8 % 4 * 2 + head % 2);
}

// The outputs that warps have left, `OF_WARP` times 16 bytes apart, to that of the block, of the sequence or of its part. The largest weight of a
// sum is two to the power of `largest`.
template <int BITS, int D, int OF_WARP>
__device__ __forceinline__ void put_together(const float4 *outputs, const float (&maxima)[MAX_WARPS][ROWS], const float (&sums)[MAX_WARPS][ROWS],
                                             float largest, float *out, float *partial, float *lse, long long first_head, int group) {
    constexpr int FOURS = D / 4;
    const int split = blockIdx.x, splits = gridDim.x, warps = blockDim.x / LANES;
    for (int i = threadIdx.x; i < group * FOURS; i += blockDim.x) {
        const int head = i / FOURS, four = i % FOURS;
        float most = NO_SCORE, all = 0.0f;
        for (int other = 0; other < warps; ++other) most = fmaxf(most, maxima[other][head]);
        float4 o = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int other = 0; other < warps; ++other) {
            const float by = power_of_2(maxima[other][head] - most);
            const float4 part = outputs[other * OF_WARP + head * FOURS + output_place<BITS>(head, four)];
            all += sums[other][head] * by;
            o.x += part.x * by, o.y += part.y * by, o.z += part.z * by, o.w += part.w * by;
        }
        // Of no tokens the output is 0, and so is its weight.
        const float by = all == 0.0f ? 0.0f : 1.0f / all;
        o.x *= by, o.y *= by, o.z *= by, o.w *= by;
        const long long to = (first_head + head) * splits + split;
        reinterpret_cast<float4 *>((splits > 1 ? partial : out) + to * D)[four] = o;
        if (splits > 1 && four == 0) lse[to] = all == 0.0f ? minus_infinity() : most - largest + log2f(all);
    }
}

template <typename F, int D>
__device__ __forceinline__ void decode_tensor(const float *__restrict__ q, const unsigned char *__restrict__ keys,
                                              const unsigned char *__restrict__ values, const float *__restrict__ key_scales,
                                              const float *__restrict__ value_scales, const int *__restrict__ table,
                                              const int *__restrict__ lengths, float *out, float *partial, float *lse, unsigned *counters, int heads,
                                              int kv_heads, int head_dim, int block_len, int table_len, int split_len) {
    using T = Tensor<F>;
    static_assert(D == 128 || (D == 64 && F::BITS == 16), "lanes and banks are for these");
    constexpr int TILE = T::TILE, BYTES = D * F::BITS / 8, CHUNKS = BYTES / 16;
    // Products over 16 elements each, and how many of them 16 bytes of a lane are for.
    constexpr int PRODUCTS = D / 16, AT_ONCE = 32 / F::BITS;
    constexpr int PLANE = TILE * BYTES, STAGE = 2 * PLANE + (F::SCALED ? 2 * TILE * 4 : 0);
    constexpr int QUERY = PRODUCTS * LANES * (T::PARTS == 3 ? 24 : 16);
    constexpr int SIDE = LANES / CHUNKS;
    extern __shared__ __align__(LINE_BYTES) unsigned char shared_tiles[];
    __shared__ float factors[ROWS], offsets[T::SUBNORMAL ? ROWS : 1], maxima[MAX_WARPS][ROWS], sums[MAX_WARPS][ROWS];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    // A lane's row of the matrices and its place in it.
    const int row = lane / 4, place = lane % 4;
    const int split = blockIdx.x, splits = gridDim.x, kv_head = blockIdx.y, batch = blockIdx.z;
    const int group = heads / kv_heads;
    if (group > ROWS || head_dim != D) __trap();
    const long long first_head = static_cast<long long>(batch) * heads + kv_head * group;
    const unsigned query_at = shared_address(shared_tiles), tiles = query_at + QUERY + warp * (STAGES * STAGE);

    const int length = lengths[batch];
    const int step = warps * TILE, part_end = (split + 1) * split_len;
    int start = split * split_len + warp * TILE;
    auto load_query = [&](int head) {
        float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
        if (head < group && lane * 4 < D) x = *reinterpret_cast<const float4 *>(q + (first_head + head) * D + lane * 4);
        return x;
    };
    float4 x = load_query(warp);

    // The length need not have come.
    const Pages pages(table, table_len, block_len, part_end, kv_heads);
    Ahead<TILE, STAGE> ahead(pages, start, step, tiles);
    const int end = min(length, part_end);
    const int side = lane / CHUNKS, chunk = lane % CHUNKS;
    const int key_to = T::template key_place<D>(side, chunk), value_to = T::template value_place<D>(side, chunk);
    const unsigned long long policy = evict_first();
    auto copy = [&](int from, int block, unsigned to) {
        const int mine = from + lane;
        const bool mine_has = mine < end && lane < TILE;
        const unsigned row = mine_has ? pages.row(mine, block) : 0;
        if (F::SCALED && lane < TILE) {
            const unsigned scale_to = to + 2 * PLANE + lane * 4;
            copy_4(scale_to, key_scales + row, mine_has);
            copy_4(scale_to + TILE * 4, value_scales + row, mine_has);
        }
#pragma unroll
        for (int i = 0; i < TILE / SIDE; ++i) {
            const int token = i * SIDE + side;
            const unsigned long long offset = static_cast<unsigned long long>(__shfl_sync(ALL, row, token)) * BYTES + chunk * 16;
            const bool has = from + token < end;
            copy_16(to + (key_to ^ T::template key_place<D>(i * SIDE, 0)), keys + offset, has, policy);
            copy_16(to + PLANE + (value_to ^ T::template value_place<D>(i * SIDE, 0)), values + offset, has, policy);
        }
    };
    ahead.start(end, copy);

    // Queries as the first matrix of products: its rows 0 to 7 are heads, and what f16 loses of them is in rows 8 to 15. The order of
    // elements is that in which lanes have those of keys.
    const float scale = LOG2_E / sqrtf(static_cast<float>(D));
    for (int head = warp; head < ROWS; head += warps) {
        const float4 next = load_query(head + warps);
        float by = scale, factor = 1.0f;
        if (T::NORMAL) {
            float most = fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
#pragma unroll
            for (int lanes = LANES / 2; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, lanes));
            // The power of two that takes it to 2^13 and above.
            const unsigned exponent = min(267u - (__float_as_uint(most) >> 23), 253u);
            by = __uint_as_float(exponent << 23);
            factor = scale * __uint_as_float((254u - exponent) << 23);
        }
        x.x *= by, x.y *= by, x.z *= by, x.w *= by;
        if (F::BITS == 4) {
            // Codes four apart are together; of eight, a lane has the first four and the next the others.
            const bool odd = lane % 2 != 0;
            const float a = __shfl_xor_sync(ALL, odd ? x.x : x.z, 1), b = __shfl_xor_sync(ALL, odd ? x.y : x.w, 1);
            if (odd) {
                x.y = x.z, x.x = a, x.z = b;
            } else {
                x.z = x.y, x.y = a, x.w = b;
            }
        }
        if (lane == 0) factors[head] = head < group ? factor : 0.0f;
        if (T::SUBNORMAL) {
            const float all = warp_sum(x.x + x.y + x.z + x.w);
            if (lane == 0) factors[head] *= 0x1p24f, offsets[T::SUBNORMAL ? head : 0] = all * (-8 * 0x1p-24f);
            x.z *= 0.0625f, x.w *= 0.0625f;
        }
        if (lane * 4 < D) {
            unsigned first[T::PARTS], second[T::PARTS];
            T::split(x.x, x.y, first);
            T::split(x.z, x.w, second);
            const int product = lane / (4 * AT_ONCE) * AT_ONCE + lane % AT_ONCE, to = head * 4 + lane / AT_ONCE % 4;
            const uint4 parts = {first[0], first[1], second[0], second[1]};
            *reinterpret_cast<uint4 *>(shared_tiles + (product * LANES + (to ^ (product * T::SPREAD & 7))) * 16) = parts;
            if (T::PARTS == 3) {
                const uint2 rest = {first[T::PARTS - 1], second[T::PARTS - 1]};
                const int at = PRODUCTS * LANES * 16 + (product * LANES + (to ^ product % 4 * 4)) * 8;
                *reinterpret_cast<uint2 *>(shared_tiles + at) = rest;
            }
        }
        x = next;
    }
    __syncthreads();
    unsigned query[PRODUCTS][4], query_rest[T::PARTS == 3 ? PRODUCTS : 1][4];
#pragma unroll
    for (int i = 0; i < PRODUCTS; ++i) {
        const uint4 parts = read_16(query_at + (i * LANES + (lane ^ (i * T::SPREAD & 7))) * 16);
        query[i][0] = parts.x, query[i][1] = parts.y, query[i][2] = parts.z, query[i][3] = parts.w;
        if (T::PARTS == 3) {
            const uint2 rest = read_8(query_at + PRODUCTS * LANES * 16 + (i * LANES + (lane ^ i % 4 * 4)) * 8);
            query_rest[i][0] = rest.x, query_rest[i][2] = rest.y, query_rest[i][1] = query_rest[i][3] = 0;
        }
    }
    const float factor = factors[row], offset = T::SUBNORMAL ? offsets[T::SUBNORMAL ? row : 0] : 0.0f;

    float output[D / 8][2], maximum = NO_SCORE, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) output[i][0] = output[i][1] = 0.0f;
    unsigned tile = tiles;
    for (; start < end; start += step) {
        ahead.next(end, copy);

        float scores[TILE / 8][2], value_scale[F::SCALED ? TILE / 8 : 1][2];
        float most = maximum;
        const int key_from = T::template key_place<D>(row, place);
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
            float c[4] = {offset, offset, 0.0f, 0.0f};
#pragma unroll
            for (int i = 0; i < CHUNKS / 4; ++i) {
                unsigned pairs[AT_ONCE][2];
                T::key_pairs(read_16(tile + (key_from ^ T::template key_place<D>(n * 8, i * 4))), pairs);
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j) {
                    T::multiply(c, query[i * AT_ONCE + j], pairs[j][0], pairs[j][1]);
                    if (T::PARTS == 3) T::multiply(c, query_rest[T::PARTS == 3 ? i * AT_ONCE + j : 0], pairs[j][0], pairs[j][1]);
                }
            }
            scores[n][0] = (c[0] + c[2]) * factor, scores[n][1] = (c[1] + c[3]) * factor;
        }
        if (F::SCALED) {
#pragma unroll
            for (int n = 0; n < TILE / 8; ++n) {
                const unsigned at = tile + 2 * PLANE + (n * 8 + place * 2) * 4;
                const uint2 by = read_8(at), weigh = read_8(at + TILE * 4);
                scores[n][0] *= __uint_as_float(by.x), scores[n][1] *= __uint_as_float(by.y);
                value_scale[F::SCALED ? n : 0][0] = __uint_as_float(weigh.x);
                value_scale[F::SCALED ? n : 0][1] = __uint_as_float(weigh.y);
            }
        }
        if (start + TILE > end) {
#pragma unroll
            for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    if (start + n * 8 + place * 2 + e >= end) scores[n][e] = minus_infinity();
                }
            }
        }
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                most = fmaxf(most, scores[n][e] + (F::SCALED ? binary_exponent(value_scale[F::SCALED ? n : 0][e]) : 0.0f));
            }
        }
        most = fmaxf(most, __shfl_xor_sync(ALL, most, 1));
        most = fmaxf(most, __shfl_xor_sync(ALL, most, 2));
        const float down = power_of_2(maximum - most), reference = most - LARGEST_WEIGHT;
        maximum = most;
        sum *= down;
        // Weights as the first matrices of products: their rows are those of queries.
        unsigned weights[TILE / 16][4], weights_rest[TILE / 16][4];
#pragma unroll
        for (int n = 0; n < TILE / 8; ++n) {
            float a = power_of_2(scores[n][0] - reference), b = power_of_2(scores[n][1] - reference);
            sum += a + b;
            if (F::SCALED) a *= value_scale[F::SCALED ? n : 0][0], b *= value_scale[F::SCALED ? n : 0][1];
            unsigned parts[T::PARTS];
            T::split(a, b, parts);
            weights[n / 2][n % 2 * 2] = parts[0], weights[n / 2][n % 2 * 2 + 1] = parts[1];
            weights_rest[n / 2][n % 2 * 2] = parts[T::PARTS - 1], weights_rest[n / 2][n % 2 * 2 + 1] = 0;
        }
        // Products are added up over a tile only: tensor cores cut off what the sum has no place for, and all errors are to one side.
        auto add = [&](float (&to)[2], const float (&c)[4]) {
            to[0] = to[0] * down + (c[0] + c[2]);
            to[1] = to[1] * down + (c[1] + c[3]);
        };
        const unsigned value_plane = tile + PLANE;
        if constexpr (F::BITS == 16) {
            const int from = T::template value_place<D>(lane % 16, lane / 16);
#pragma unroll
            for (int i = 0; i < D / 8; i += 2) {
                float c[2][4] = {};
#pragma unroll
                for (int m = 0; m < TILE / 16; ++m) {
                    unsigned pairs[4];
                    read_transposed(pairs, value_plane + (from ^ T::template value_place<D>(m * 16, i)));
                    T::multiply(c[0], weights[m], pairs[0], pairs[1]);
                    T::multiply(c[1], weights[m], pairs[2], pairs[3]);
                    if (T::PARTS == 3) {
                        T::multiply(c[0], weights_rest[m], pairs[0], pairs[1]);
                        T::multiply(c[1], weights_rest[m], pairs[2], pairs[3]);
                    }
                }
                add(output[i], c[0]);
                add(output[i + 1], c[1]);
            }
        } else {
            // 16 elements of a lane's four tokens of 16.
            constexpr int WORDS = F::BITS / 2;
            const int from = F::BITS == 8 ? T::template value_place<D>(place * 2, row)
                                          : T::template value_place<D>(place * 2, row / 2) + row % 2 * 8;
            unsigned codes[TILE / 16][4][WORDS];
#pragma unroll
            for (int m = 0; m < TILE / 16; ++m) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const unsigned at = value_plane + (from ^ T::template value_place<D>(m * 16 + i % 2 + i / 2 * 8, 0));
                    unsigned (&to)[WORDS] = codes[m][i];
                    if constexpr (WORDS == 4) {
                        const uint4 four = read_16(at);
                        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
                    } else {
                        const uint2 two = read_8(at);
                        to[0] = two.x, to[1] = two.y;
                    }
                }
            }
#pragma unroll
            for (int four = 0; four < 4; ++four) {
                float c[4][4] = {};
#pragma unroll
                for (int m = 0; m < TILE / 16; ++m) {
                    unsigned pairs[2][4];
#pragma unroll
                    for (int i = 0; i < 2; ++i) T::value_pairs(codes[m][2 * i], codes[m][2 * i + 1], four, pairs[i]);
#pragma unroll
                    for (int e = 0; e < 4; ++e) T::multiply(c[e], weights[m], pairs[0][e], pairs[1][e]);
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) add(output[four * 4 + e], c[e]);
            }
        }
        tile = ahead.after(tile);
    }
    wait<0>();
    __syncwarp();

    // A warp leaves its output where its tiles were.
    float4 *const outputs = reinterpret_cast<float4 *>(shared_tiles + QUERY);
    constexpr int FOURS = D / 4, OF_WARP = STAGES * STAGE / 16;
    static_assert(ROWS * FOURS <= OF_WARP, "outputs take the place of tiles");
    float4 *const mine = outputs + warp * OF_WARP + row * FOURS;
    if (F::BITS == 16) {
#pragma unroll
        for (int i = 0; i < D / 8; ++i) {
            const unsigned to = query_at + QUERY + (warp * OF_WARP + row * FOURS + output_place<F::BITS>(row, i * 2 + place / 2)) * 16;
            write_8(to + place % 2 * 8, output[i][0], output[i][1]);
        }
    } else {
        // Of 16 elements of values that a lane had, each is a column of another product.
#pragma unroll
        for (int e = 0; e < 2; ++e) {
#pragma unroll
            for (int i = 0; i < D / 8; i += 4) {
                const float4 four = {output[i][e], output[i + 1][e], output[i + 2][e], output[i + 3][e]};
                mine[output_place<F::BITS>(row, (place * 2 + e) * 4 + i / 4)] = four;
            }
        }
    }
    sum += __shfl_xor_sync(ALL, sum, 1);
    sum += __shfl_xor_sync(ALL, sum, 2);
    if (place == 0) maxima[warp][row] = maximum, sums[warp][row] = sum;
    __syncthreads();
    put_together<F::BITS, D, OF_WARP>(outputs, maxima, sums, LARGEST_WEIGHT, out, partial, lse, first_head, group);
    if (splits > 1) merge(partial, lse, counters + batch * kv_heads + kv_head, out, first_head, group, D, splits);
}

#define PAGED_DECODE_TENSOR(NAME, F, D)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, 1)                                                                         \
    paged_decode_##NAME##_d##D(const float *q, const unsigned char *keys, const unsigned char *values, const float *key_scales,          \
                               const float *value_scales, const int *table, const int *lengths, float *out, float *partial, float *lse,   \
                               unsigned *counters, int heads,                                                                           \
                               int kv_heads, int head_dim, int block_len, int table_len, int split_len) {                                \
        decode_tensor<F, D>(q, keys, values, key_scales, value_scales, table, lengths, out, partial, lse, counters, heads, kv_heads, head_dim, block_len,   \
                            table_len, split_len);                                                                                       \
    }

// Registers are for 8 warps on a multiprocessor: 12 would spill, and gain nothing.
PAGED_DECODE_TENSOR(f16, F16, 64)
PAGED_DECODE_TENSOR(f16, F16, 128)
PAGED_DECODE_TENSOR(bf16, Bf16, 64)
PAGED_DECODE_TENSOR(bf16, Bf16, 128)
PAGED_DECODE_TENSOR(int8, Int8, 128)
PAGED_DECODE_TENSOR(int4, Int4, 128)

// -- Tiles of f32 --------------------------------------------------------------------------------------------------------------------

// What a block has of shared memory beside queries and tiles. Weights are [TILE, G], and after them what the sums so far are to be taken by.
struct SharedF32 {
    static constexpr int TILE = 8;
    alignas(16) float weights[MAX_WARPS][(TILE + 1) * ROWS];
    float maxima[MAX_WARPS][ROWS];
    float sums[MAX_WARPS][ROWS];
};

__device__ __forceinline__ void read_4(float (&to)[4], unsigned at) {
    const uint4 v = read_16(at);
    to[0] = __uint_as_float(v.x), to[1] = __uint_as_float(v.y), to[2] = __uint_as_float(v.z), to[3] = __uint_as_float(v.w);
}

// A warp's tokens, for a group of up to G, which is 4 or 8: its output is left where its tiles were. Lookups and copies are as with tensor cores.
template <int D, int G>
__device__ __forceinline__ void attend_f32(const float *__restrict__ q, const unsigned char *__restrict__ keys,
                                           const unsigned char *__restrict__ values, const int *__restrict__ table, int length, int group,
                                           int kv_heads, int block_len, int table_len, int split_len, SharedF32 &shared) {
    constexpr int TILE = SharedF32::TILE, BYTES = D * 4, CHUNKS = BYTES / 16, PLANE = TILE * BYTES, STAGE = 2 * PLANE;
    constexpr int OF_WARP = STAGES * STAGE / 16;
    // Of scores: lanes that share a token, with 8 elements each; tokens side by side; and those that a lane takes in a round.
    constexpr int SHARERS = D / 8, SIDE = LANES / SHARERS, STEPS = SHARERS / G, ROUNDS = TILE / (SIDE * STEPS);
    // Of outputs: tokens side by side, with 4 elements a lane.
    constexpr int VALUE_SIDE = LANES / CHUNKS;
    static_assert((D == 64 || D == 128) && (G == 4 || G == 8), "a lane has one score of a round");
    extern __shared__ __align__(LINE_BYTES) unsigned char shared_tiles[];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const int split = blockIdx.x;
    const unsigned query_at = shared_address(shared_tiles), tiles = query_at + ROWS * BYTES + warp * (STAGES * STAGE);
    float (&weights)[(TILE + 1) * ROWS] = shared.weights[warp];
    const unsigned weights_at = shared_address(weights);

    const int step = warps * TILE, part_end = (split + 1) * split_len;
    int start = split * split_len + warp * TILE;
    const Pages pages(table, table_len, block_len, part_end, kv_heads);
    Ahead<TILE, STAGE> ahead(pages, start, step, tiles);
    const int end = min(length, part_end);
    const unsigned long long policy = evict_first();
    auto copy = [&](int from, int block, unsigned to) {
        const int token = from + lane;
        const unsigned row = token < end ? pages.row(token, block) : 0;
#pragma unroll
        for (int i = 0; i < TILE; i += VALUE_SIDE) {
            const int place = i + lane / CHUNKS;
            const unsigned long long offset = static_cast<unsigned long long>(__shfl_sync(ALL, row, place)) * BYTES + lane % CHUNKS * 16;
            const bool has = from + place < end;
            copy_16(to + i * BYTES + lane * 16, keys + offset, has, policy);
            copy_16(to + PLANE + i * BYTES + lane * 16, values + offset, has, policy);
        }
    };
    ahead.start(end, copy);

    // Queries come once for all warps.
    const float scale = LOG2_E / sqrtf(static_cast<float>(D));
    for (int i = threadIdx.x; i < G * CHUNKS; i += blockDim.x) {
        float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
        if (i < group * CHUNKS) x = reinterpret_cast<const float4 *>(q)[i];
        x.x *= scale, x.y *= scale, x.z *= scale, x.w *= scale;
        reinterpret_cast<float4 *>(shared_tiles)[i] = x;
    }
    __syncthreads();
    // The products of a round are step * G + head, and the i-th of lane n is product i ^ n. So lanes that add up their sums in pairs keep the first
    // half of what they have and give away the second, and lane n ends with the sum of product n.
    const int n = lane % SHARERS, side = lane / SHARERS;
    float query[G][2][4];
#pragma unroll
    for (int h = 0; h < G; ++h) {
#pragma unroll
        for (int i = 0; i < 2; ++i) read_4(query[h][i], query_at + (h ^ n % G) * BYTES + (i * SHARERS + n) * 16);
    }
    // The token of the lane's own score, of a round.
    const int mine = n / G * SIDE + side;

    float output[G][4], maximum = NO_SCORE, sum = 0.0f;
#pragma unroll
    for (int h = 0; h < G; ++h) output[h][0] = output[h][1] = output[h][2] = output[h][3] = 0.0f;
    unsigned tile = tiles;
    for (; start < end; start += step) {
        // All lanes are done with the weights, too.
        ahead.next(end, copy);

        float scores[ROUNDS], most = maximum;
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            float products[SHARERS];
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const int token = (round * STEPS + (s ^ n / G)) * SIDE + side;
                float key[2][4];
#pragma unroll
                for (int i = 0; i < 2; ++i) read_4(key[i], tile + token * BYTES + (i * SHARERS + n) * 16);
#pragma unroll
                for (int h = 0; h < G; ++h) {
                    float product = 0.0f;
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
#pragma unroll
                        for (int j = 0; j < 4; ++j) product += query[h][i][j] * key[i][j];
                    }
                    products[s * G + h] = product;
                }
            }
#pragma unroll
            for (int half = SHARERS / 2; half > 0; half /= 2) {
                // nvcc unrolls it only if it does not end at `half`.
#pragma unroll
                for (int i = 0; i < SHARERS / 2; ++i) {
                    if (i < half) products[i] += __shfl_xor_sync(ALL, products[half + i], half);
                }
            }
            scores[round] = start + round * STEPS * SIDE + mine < end ? products[0] : minus_infinity();
            most = fmaxf(most, scores[round]);
        }
#pragma unroll
        for (int lanes = G; lanes < LANES; lanes *= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, lanes));
        const float down = power_of_2(maximum - most);
        maximum = most;
        sum *= down;
#pragma unroll
        for (int round = 0; round < ROUNDS; ++round) {
            const float weight = power_of_2(scores[round] - most);
            sum += weight;
            weights[(round * STEPS * SIDE + mine) * G + n % G] = weight;
        }
        if (lane < G) weights[TILE * G + lane] = down;
        __syncwarp();
#pragma unroll
        for (int h = 0; h < G; h += 4) {
            float by[4];
            read_4(by, weights_at + (TILE * G + h) * 4);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) output[h + i][j] *= by[i];
            }
        }
#pragma unroll
        for (int i = 0; i < TILE; i += VALUE_SIDE) {
            const int token = i + lane / CHUNKS;
            float value[4];
            read_4(value, tile + PLANE + i * BYTES + lane * 16);
#pragma unroll
            for (int h = 0; h < G; h += 4) {
                float weight[4];
                read_4(weight, weights_at + (token * G + h) * 4);
#pragma unroll
                for (int k = 0; k < 4; ++k) {
#pragma unroll
                    for (int j = 0; j < 4; ++j) output[h + k][j] += weight[k] * value[j];
                }
            }
        }
        tile = ahead.after(tile);
    }
    wait<0>();
    __syncwarp();

    // A warp leaves its output where its tiles were.
    float4 *const outputs = reinterpret_cast<float4 *>(shared_tiles + ROWS * BYTES);
    static_assert(G * CHUNKS <= OF_WARP, "outputs take the place of tiles");
#pragma unroll
    for (int h = 0; h < G; ++h) {
#pragma unroll
        for (int lanes = CHUNKS; lanes < LANES; lanes *= 2) {
#pragma unroll
            for (int j = 0; j < 4; ++j) output[h][j] += __shfl_xor_sync(ALL, output[h][j], lanes);
        }
        if (lane < CHUNKS) outputs[warp * OF_WARP + h * CHUNKS + lane] = float4{output[h][0], output[h][1], output[h][2], output[h][3]};
    }
#pragma unroll
    for (int lanes = G; lanes < LANES; lanes *= 2) sum += __shfl_xor_sync(ALL, sum, lanes);
    if (lane < G) shared.maxima[warp][lane] = maximum, shared.sums[warp][lane] = sum;
}

template <int D>
__device__ __forceinline__ void decode_f32(const float *__restrict__ q, const unsigned char *__restrict__ keys,
                                           const unsigned char *__restrict__ values, const int *__restrict__ table,
                                           const int *__restrict__ lengths, float *out, float *partial, float *lse, unsigned *counters, int heads,
                                           int kv_heads, int head_dim, int block_len, int table_len, int split_len) {
    extern __shared__ __align__(LINE_BYTES) unsigned char shared_tiles[];
    __shared__ SharedF32 shared;
    const int splits = gridDim.x, kv_head = blockIdx.y, batch = blockIdx.z, group = heads / kv_heads;
    if (group > ROWS || head_dim != D) __trap();
    const long long first_head = static_cast<long long>(batch) * heads + kv_head * group;
    q += first_head * D;
    if (group <= 4) {
        attend_f32<D, 4>(q, keys, values, table, lengths[batch], group, kv_heads, block_len, table_len, split_len, shared);
    } else {
        attend_f32<D, 8>(q, keys, values, table, lengths[batch], group, kv_heads, block_len, table_len, split_len, shared);
    }
    __syncthreads();
    constexpr int QUERY = ROWS * D * 4, OF_WARP = STAGES * 2 * SharedF32::TILE * D / 4;
    put_together<32, D, OF_WARP>(reinterpret_cast<const float4 *>(shared_tiles + QUERY), shared.maxima, shared.sums, 0.0f, out, partial, lse,
                                 first_head, group);
    if (splits > 1) merge(partial, lse, counters + batch * kv_heads + kv_head, out, first_head, group, D, splits);
}

#define PAGED_DECODE_F32(D)                                                                                                              \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, 1)                                                                         \
    paged_decode_f32_d##D(const float *q, const unsigned char *keys, const unsigned char *values, const float *, const float *,          \
                          const int *table, const int *lengths, float *out, float *partial, float *lse, unsigned *counters, int heads,   \
                          int kv_heads, int head_dim, int block_len, int table_len, int split_len) {                                     \
        decode_f32<D>(q, keys, values, table, lengths, out, partial, lse, counters, heads, kv_heads, head_dim, block_len, table_len, split_len); \
    }

PAGED_DECODE_F32(64)
PAGED_DECODE_F32(128)
