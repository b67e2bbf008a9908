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
// partial [batch, heads, splits, head_dim] and lse [batch, heads, splits], f32. keys, values, q, out and partial at multiples of 16 bytes.
//
// The fast version asks for head_dim a multiple of 8 and not above 32 * E, where E = 8 elements a lane, and 4 for f32 and for
// groups beyond 8; heads / kv_heads at most 16. The plain one takes any.
//
// Launches, F = f32, f16, bf16, int8, int4; G = 8, or 16 with f16, not less than heads / kv_heads:
//   paged_decode_F_gG         grid: (splits, kv_heads, batch)   block: 32 to 256, a multiple of 32
//                             dynamic shared bytes: (block / 32) * G * (head_dim * 2 + 40) * 4
//   paged_decode_merge        grid: (heads, batch)              block: 32 to 256, a multiple of 32;  dynamic shared bytes: splits * 4
//   paged_decode_plain_f16    grid: (heads, batch)              block: 32 to 256, a multiple of 32
// Compute capability 7.0 or higher.
//
// Method. A block takes a part of a sequence's tokens and all query heads of one head of keys: a cached byte is read once for the whole
// group. A warp takes 32 tokens at a time: each lane looks one up in the table, and its scales; then head_dim / E lanes (to the next
// power of two) share a token, its elements E by E in registers, with as many tokens side by side as a warp has room for: what they read is
// contiguous as far as the block is. The scores of 4 such steps (2 for wide groups) are taken before their values are read, and each group of
// lanes keeps its own maximum, sum and output over its tokens (Milakov and Gimelshein), in powers of two; these are put together at the
// end, over the lanes and over the warps. Parts are exact: each leaves its output and the binary logarithm of its sum, by which
// the second launch weighs them.
//
// Traffic: keys, values and scales of the tokens once; 4 bytes of table a token; q once a split; out. Parts add 8 bytes for each element of
// out and each split: a split wants some 1000 tokens, more in narrow formats. Sums are f32. No atomics and one order: results do not depend
// on that of blocks or warps. Shared memory is used for queries and in the end, without bank conflicts if head_dim is a multiple of 64.
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

// -- Fast ----------------------------------------------------------------------------------------------------------------------------

// Where element `j` of lane `lane` lies in the shared output of a head. Four elements of a lane are beside those of the next, so that
// stores of 16 bytes and reads column by column are both without conflicts.
template <int E> __device__ __forceinline__ int shared_place(int lane, int j, int width) { return j / 4 * (width * 4 + 16) + lane * 4 + j % 4; }

// One read of keys and values for a group of up to G query heads. Costs registers, 2 G E for queries and outputs, and lanes where
// head_dim / E is no power of two.
template <typename F, int G>
__device__ __forceinline__ void decode(const float *__restrict__ q, const unsigned char *__restrict__ keys,
                                       const unsigned char *__restrict__ values, const float *__restrict__ key_scales,
                                       const float *__restrict__ value_scales, const int *__restrict__ table,
                                       const int *__restrict__ lengths, float *__restrict__ out, float *__restrict__ lse, int heads,
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
                    const float down = exp2f(maximum[h] - most);
                    maximum[h] = most;
                    sum[h] *= down;
#pragma unroll
                    for (int j = 0; j < E; ++j) output[h][j] *= down;
#pragma unroll
                    for (int s = 0; s < STEPS; ++s) {
                        scores[s][h] = exp2f(scores[s][h] - most);
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
                const float down = exp2f(maximum[h] - most);
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
        for (int other = 0; other < warps; ++other) all += sums[other * G + h] * exp2f(maxima[other * G + h] - most);
        const long long place = (first_head + h) * splits + split;
        for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
            float o = 0.0f;
            for (int other = 0; other < warps; ++other) {
                o += outputs[(other * G + h) * row + shared_place<E>(d / E, d % E, width)] * exp2f(maxima[other * G + h] - most);
            }
            // Of no tokens the output is 0, and so is its weight.
            out[place * head_dim + d] = all > 0.0f ? o / all : 0.0f;
        }
        if (splits > 1 && threadIdx.x == 0) lse[place] = all > 0.0f ? most + log2f(all) : minus_infinity();
    }
}

#define PAGED_DECODE(NAME, F, G)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS)                                                                            \
    paged_decode_##NAME##_g##G(const float *q, const unsigned char *keys, const unsigned char *values, const float *key_scales,          \
                               const float *value_scales, const int *table, const int *lengths, float *out, float *lse, int heads,       \
                               int kv_heads, int head_dim, int block_len, int table_len, int split_len) {                                \
        decode<F, G>(q, keys, values, key_scales, value_scales, table, lengths, out, lse, heads, kv_heads, head_dim, block_len,          \
                     table_len, split_len);                                                                                              \
    }

// One for each format, and one for wide groups. Others are a line each.
PAGED_DECODE(f32, F32, 8)
PAGED_DECODE(f16, F16, 8)
PAGED_DECODE(f16, F16, 16)
PAGED_DECODE(bf16, Bf16, 8)
PAGED_DECODE(int8, Int8, 8)
PAGED_DECODE(int4, Int4, 8)

// The parts of each head put together, by what their sums weigh.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
paged_decode_merge(const float *partial, const float *lse, float *out, int heads, int head_dim, int splits) {
    extern __shared__ float4 shared_weights[];
    float *const weights = reinterpret_cast<float *>(shared_weights);
    const long long head = static_cast<long long>(blockIdx.y) * heads + blockIdx.x;
    for (int split = threadIdx.x; split < splits; split += blockDim.x) weights[split] = lse[head * splits + split];
    __syncthreads();
    // A sequence without tokens has nothing but -inf, and its output is 0.
    float most = NO_SCORE, all = 0.0f;
    for (int split = 0; split < splits; ++split) most = fmaxf(most, weights[split]);
    for (int split = 0; split < splits; ++split) all += exp2f(weights[split] - most);
    for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
        float o = 0.0f;
        for (int split = 0; split < splits; ++split) {
            o += partial[(head * splits + split) * head_dim + d] * exp2f(weights[split] - most);
        }
        out[head * head_dim + d] = all > 0.0f ? o / all : 0.0f;
    }
}
