// A paged cache of keys and values around `paged_decode.cu`: what keeps it, and attention of more than one token at a time.
//
// keys, values: [layers, blocks, kv_heads, block_len, head_dim] in one of four formats, scales without the last axis; a cache that is not
// paged has one block for each sequence. table [batch, table_len]: the blocks of each sequence, the same in every layer. owned [batch]: how
// many those are. unused [blocks]: those of nobody, of which there are unused_count. held [layers, batch]: tokens.

#include "paged_decode.cu"

// How a row is stored, by bits: f32; f16; int8 of 127 steps; int4 of 7.5 steps, as codes from -8 to 7 kept 8 higher.
__device__ __forceinline__ float most_codes(int bits) { return bits == 8 ? 127.0f : 7.5f; }

__device__ __forceinline__ int code(float x, float scale, int bits) {
    const float nearest = scale > 0 ? rintf(x / scale) : 0;
    return static_cast<int>(bits == 8 ? fminf(fmaxf(nearest, -127.0f), 127.0f) : fminf(fmaxf(nearest, -8.0f), 7.0f));
}

// Pairs of elements that a lane keeps in registers, so that rows of up to 256 are read once.
constexpr int KEPT = 4;

// Does `visit(i, pair)` for the pairs of a row that are a lane's.
template <class Visit> __device__ __forceinline__ void each_pair(const float2 (&kept)[KEPT], const float2 *pairs, int count, Visit visit) {
#pragma unroll
    for (int j = 0; j < KEPT; ++j) {
        const int i = threadIdx.x + j * LANES;
        if (i < count) visit(i, kept[j]);
    }
    for (int i = threadIdx.x + KEPT * LANES; i < count; i += LANES) visit(i, pairs[i]);
}

// A row, written by a warp, two elements a lane at a time. A row with a NaN or an infinity has a scale of NaN.
__device__ void put(unsigned char *rows, float *scales, const float *from, size_t row, int head_dim, int bits) {
    const float2 *const pairs = reinterpret_cast<const float2 *>(from);
    const int count = head_dim / 2;
    unsigned char *const to = rows + row * head_dim * bits / 8;
    float2 kept[KEPT];
#pragma unroll
    for (int j = 0; j < KEPT; ++j) {
        const int i = threadIdx.x + j * LANES;
        kept[j] = i < count ? pairs[i] : float2{0, 0};
    }
    float scale = 0;
    if (bits <= 8) {
        float largest = 0, nothing = 0;
        each_pair(kept, pairs, count, [&](int, float2 pair) {
            largest = fmaxf(largest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
            nothing += pair.x * 0.0f + pair.y * 0.0f;
        });
        for (int step = LANES / 2; step > 0; step /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, step));
            nothing += __shfl_xor_sync(ALL, nothing, step);
        }
        scale = largest / most_codes(bits) + nothing;
        if (threadIdx.x == 0) scales[row] = scale;
    }
    each_pair(kept, pairs, count, [&](int i, float2 pair) {
        if (bits == 32) {
            reinterpret_cast<float2 *>(to)[i] = pair;
        } else if (bits == 16) {
            reinterpret_cast<__half2 *>(to)[i] = __float22half2_rn(pair);
        } else {
            const int first = code(pair.x, scale, bits), second = code(pair.y, scale, bits);
            if (bits == 8) reinterpret_cast<char2 *>(to)[i] = {static_cast<signed char>(first), static_cast<signed char>(second)};
            else to[i] = (first + 8) | (second + 8) << 4;
        }
    });
}

// Two elements of a row that are next to each other, the first at an even place, but for the scale.
template <int BITS> __device__ __forceinline__ float2 pair_of(const unsigned char *rows, size_t row, int d, int head_dim) {
    const unsigned char *const from = rows + (row * head_dim + d) * BITS / 8;
    if constexpr (BITS == 32) return *reinterpret_cast<const float2 *>(from);
    if constexpr (BITS == 16) return __half22float2(*reinterpret_cast<const __half2 *>(from));
    if constexpr (BITS == 8) {
        const char2 both = *reinterpret_cast<const char2 *>(from);
        return {static_cast<float>(both.x), static_cast<float>(both.y)};
    }
    return {static_cast<float>((*from & 15) - 8), static_cast<float>((*from >> 4) - 8)};
}

extern "C" __global__ void begin(int *unused, int *unused_count, int blocks) {
    for (int block = threadIdx.x; block < blocks; block += blockDim.x) unused[block] = blocks - 1 - block;
    if (threadIdx.x == 0) *unused_count = blocks;
}

// Gives every sequence the blocks that its new tokens need, or refuses them all. One warp, a sequence a lane.
extern "C" __global__ void reserve(const long long *held, int *table, int *owned, const int *unused, int *unused_count, const long long *lengths,
                                   int *status, int batch, int layer, int max_len, int block_len, int table_len) {
    // Blocks that a sequence lacks; -1 if it has no room for its tokens.
    const auto lacking = [&](int b) -> long long {
        if (b >= batch) return 0;
        const long long end = held[layer * batch + b] + lengths[b];
        return end > max_len ? -1 : max((end + block_len - 1) / block_len - owned[b], 0ll);
    };
    const int lane = threadIdx.x;
    long long needed = 0;
    bool fits = true;
    for (int b = lane; b < batch; b += LANES) {
        const long long lacks = lacking(b);
        fits = fits && lacks >= 0;
        needed += lacks;
    }
    for (int step = LANES / 2; step > 0; step /= 2) needed += __shfl_xor_sync(ALL, needed, step);
    int left = *unused_count;
    if (!__all_sync(ALL, fits) || needed > left) {
        if (lane == 0) *status = 1;
        return;
    }
    for (int first = 0; first < batch; first += LANES) {
        const int b = first + lane, count = static_cast<int>(lacking(b));
        int until = count;
        for (int step = 1; step < LANES; step *= 2) {
            const int before = __shfl_up_sync(ALL, until, step);
            until += lane >= step ? before : 0;
        }
        if (count > 0) {
            const int has = owned[b];
            for (int i = 0; i < count; ++i) table[b * table_len + has + i] = unused[left - 1 - (until - count + i)];
            owned[b] = has + count;
        }
        left -= __shfl_sync(ALL, until, LANES - 1);
    }
    // All have read what was left.
    __syncwarp();
    if (lane == 0) *unused_count = left;
}

__device__ __forceinline__ size_t row_of(const int *table, size_t first_block, int b, int kv_heads, int head, long long token, int block_len,
                                         int table_len) {
    const size_t block = first_block + table[b * table_len + token / block_len];
    return (block * kv_heads + head) * block_len + token % block_len;
}

// A warp for each new token of a head.
extern "C" __global__ void store(unsigned char *keys, unsigned char *values, float *key_scales, float *value_scales, const int *table,
                                 const long long *held, const float *k, const float *v, const long long *lengths, const int *status, int batch,
                                 int layer, int blocks, int block_len, int table_len, int head_dim, int bits) {
    const int token = blockIdx.x, head = blockIdx.y, b = blockIdx.z, kv_heads = gridDim.y;
    if (*status != 0 || token >= lengths[b]) return;
    const size_t from = ((static_cast<size_t>(b) * kv_heads + head) * gridDim.x + token) * head_dim;
    const long long position = held[layer * batch + b] + token;
    const size_t row = row_of(table, static_cast<size_t>(layer) * blocks, b, kv_heads, head, position, block_len, table_len);
    put(keys, key_scales, k + from, row, head_dim, bits);
    put(values, value_scales, v + from, row, head_dim, bits);
}

// Counts the new tokens, when all are stored.
extern "C" __global__ void count(long long *held, const long long *lengths, const int *status, int batch, int layer) {
    if (*status != 0) return;
    for (int b = threadIdx.x; b < batch; b += blockDim.x) held[layer * batch + b] += lengths[b];
}

// What decoding wants to know of one layer: tokens of those who ask, and blocks counted through all layers.
extern "C" __global__ void lay_out(const long long *held, const int *table, const int *owned, const long long *lengths, int *tokens,
                                   int *layer_table, int batch, int layer, int blocks, int table_len) {
    const int b = blockIdx.x;
    if (threadIdx.x == 0) tokens[b] = lengths[b] > 0 ? static_cast<int>(held[layer * batch + b]) : 0;
    for (int i = threadIdx.x; i < table_len; i += blockDim.x) {
        layer_table[b * table_len + i] = layer * blocks + (i < owned[b] ? table[b * table_len + i] : 0);
    }
}

// Attention of several new tokens, and of shapes that decoding has no kernel for. A warp takes a few queries of a head, so that what it reads is
// of use to all of them, and 32 tokens at a time: for scores each lane takes a token, for outputs each takes two elements.
constexpr int QUERIES = 8;

template <int BITS>
__device__ void attend(const unsigned char *keys, const unsigned char *values, const float *key_scales, const float *value_scales, const int *table,
                       const long long *held, const float *q, const long long *lengths, float *out, int batch, int t, int layer, int kv_heads,
                       int blocks, int block_len, int table_len, int head_dim) {
    extern __shared__ float2 shared_pairs[];
    __shared__ float weights[QUERIES][LANES];
    __shared__ long long rows[LANES];
    const int head = blockIdx.y, b = blockIdx.z, lane = threadIdx.x, kv_head = head / (gridDim.y / kv_heads), pairs = head_dim / 2;
    const int first = blockIdx.x * QUERIES, queries = min(t - first, QUERIES);
    float2 *const questions = shared_pairs, *const outputs = shared_pairs + QUERIES * pairs;
    const size_t at = ((static_cast<size_t>(b) * gridDim.y + head) * t + first) * pairs;
    const float to_score = LOG2_E / sqrtf(head_dim);
    for (int i = lane; i < QUERIES * pairs; i += LANES) {
        const float2 pair = i < queries * pairs ? reinterpret_cast<const float2 *>(q)[at + i] : float2{0, 0};
        questions[i] = {pair.x * to_score, pair.y * to_score};
        outputs[i] = {0, 0};
    }
    __syncwarp();
    // The first query sees so many tokens, each further one another; what is behind the new tokens sees none.
    const int asked = static_cast<int>(min(static_cast<long long>(queries), max(lengths[b] - first, 0ll)));
    const long long seen = held[layer * batch + b] - lengths[b] + first + 1, end = asked > 0 ? seen + asked - 1 : 0;
    float most[QUERIES], all[QUERIES];
    for (int i = 0; i < QUERIES; ++i) most[i] = NO_SCORE, all[i] = 0;
    for (long long start = 0; start < end; start += LANES) {
        const long long token = start + lane;
        float scores[QUERIES] = {}, value_scale = 1;
        if (token < end) {
            const size_t row = row_of(table, static_cast<size_t>(layer) * blocks, b, kv_heads, kv_head, token, block_len, table_len);
            for (int pair = 0; pair < pairs; ++pair) {
                const float2 key = pair_of<BITS>(keys, row, 2 * pair, head_dim);
#pragma unroll
                for (int i = 0; i < QUERIES; ++i) {
                    const float2 question = questions[i * pairs + pair];
                    scores[i] += question.x * key.x + question.y * key.y;
                }
            }
            if constexpr (BITS <= 8) {
                const float scale = key_scales[row];
                for (int i = 0; i < QUERIES; ++i) scores[i] *= scale;
                value_scale = value_scales[row];
            }
            rows[lane] = row;
        }
        float factors[QUERIES];
#pragma unroll
        for (int i = 0; i < QUERIES; ++i) {
            const bool sees = i < asked && token < seen + i;
            float larger = sees ? fmaxf(most[i], scores[i]) : most[i];
            for (int step = LANES / 2; step > 0; step /= 2) larger = fmaxf(larger, __shfl_xor_sync(ALL, larger, step));
            const float weight = sees ? power_of_2(scores[i] - larger) : 0.0f;
            float sum = weight;
            for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
            factors[i] = power_of_2(most[i] - larger);
            all[i] = all[i] * factors[i] + sum;
            most[i] = larger;
            weights[i][lane] = sees ? weight * value_scale : 0.0f;
        }
        __syncwarp();
        const int count = static_cast<int>(min(end - start, static_cast<long long>(LANES)));
        for (int pair = lane; pair < pairs; pair += LANES) {
            float2 sums[QUERIES];
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) {
                const float2 output = outputs[i * pairs + pair];
                sums[i] = {output.x * factors[i], output.y * factors[i]};
            }
            for (int other = 0; other < count; ++other) {
                const float2 value = pair_of<BITS>(values, rows[other], 2 * pair, head_dim);
#pragma unroll
                for (int i = 0; i < QUERIES; ++i) {
                    // What a query does not see may be infinite.
                    const float weight = weights[i][other];
                    if (weight != 0) sums[i].x += weight * value.x, sums[i].y += weight * value.y;
                }
            }
#pragma unroll
            for (int i = 0; i < QUERIES; ++i) outputs[i * pairs + pair] = sums[i];
        }
        __syncwarp();
    }
#pragma unroll
    for (int i = 0; i < QUERIES; ++i) {
        for (int pair = lane; pair < pairs && i < queries; pair += LANES) {
            const float2 output = outputs[i * pairs + pair];
            const float part = i < asked ? 1 / all[i] : 0;
            reinterpret_cast<float2 *>(out)[at + i * pairs + pair] = {output.x * part, output.y * part};
        }
    }
}

#define ATTEND(NAME, BITS)                                                                                                               \
    extern "C" __global__ void attend_##NAME(const unsigned char *keys, const unsigned char *values, const float *key_scales,            \
                                             const float *value_scales, const int *table, const long long *held, const float *q,         \
                                             const long long *lengths, float *out, int batch, int t, int layer, int kv_heads,            \
                                             int blocks, int block_len, int table_len, int head_dim) {                                   \
        attend<BITS>(keys, values, key_scales, value_scales, table, held, q, lengths, out, batch, t, layer, kv_heads, blocks, block_len, \
                     table_len, head_dim);                                                                                               \
    }

ATTEND(f32, 32)
ATTEND(f16, 16)
ATTEND(int8, 8)
ATTEND(int4, 4)

extern "C" __global__ void copy(const long long *held, long long *lengths, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) lengths[i] = held[i];
}

extern "C" __global__ void clear(long long *held, const int *table, int *owned, int *unused, int *unused_count, int layers, int batch,
                                 int table_len, int sequence) {
    for (int layer = 0; layer < layers; ++layer) held[layer * batch + sequence] = 0;
    for (; owned[sequence] > 0; --owned[sequence]) unused[(*unused_count)++] = table[sequence * table_len + owned[sequence] - 1];
}

extern "C" __global__ void tell(long long *bytes, long long value) { *bytes = value; }
