// Softmax over each row of logits, and its k largest probabilities, without storing the probabilities of a row.
//
//   probs[r, i] = exp(logits[r, j] - lse[r]),   j = indices[r, i],   lse[r] = log(sum_j exp(logits[r, j]))
//
// for the k largest of the row, in falling order; among equals the smaller index comes first.
//
// Buffers: logits [rows, vocab], row-major, contiguous, f32, or f16 or bf16 as 16 bits; aligned to its elements. probs [rows, k] f32.
// indices [rows, k] int64. For split rows, scratch: maxima, sums [rows, splits] f32, and keys [rows, splits, k], 64 bits each.
// Any rows; vocab from 1 to 2^30. Offsets of rows are of 64 bits.
//
// Entries with no answer: a row with a NaN, or of nothing but -inf, has NaN as its probabilities, and indices of the row. A logit of -inf is
// named, with probability 0, where fewer than k others exist. Beyond vocab the probability is 0 and the index -1.
//
// Launches, for T = f32, f16, bf16; block: 64 to 512, a multiple of 32; LEN = 4 logits (f32) or 8 in 16 bytes:
//   softmax_topk_T          any k        grid: rows             dynamic shared bytes: 8 * (576 + block * LEN); a read for each 256 of k
//   softmax_topk_split_T    k to 256     grid: rows * splits    the same; for few rows, or vocabularies of 256 Ki and more
//   softmax_topk_merge      k to 256     grid: rows             dynamic shared bytes: 8 * (576 + block)
//   softmax_topk_plain_f32  any k        grid: rows             none;      k + 2 reads of the logits
// Static shared memory: 400 bytes. Bank conflicts: none but in the last step, which puts k keys of 8 bytes to where they
// belong, in any order: 16 waves at most for 16 of them, and 3 as a rule. Compute capability 7.0 or higher.
//
// Method. A block reads a row once, in tiles of 16 logits a thread, in vectors of 16 bytes that are counted from the sector of 32
// bytes in which the row begins, so that no request touches a sector more than it must; what is not wholly of the row goes element by
// element. Each thread keeps the maximum and the sum so far of its logits (Milakov and Gimelshein's recurrence, one rescaling a tile and only
// for a new maximum). Candidates are what is above a threshold, the k-th largest so far: one comparison for most logits, and one
// barrier for a tile without candidates. They are gathered in shared memory as keys of 64 bits, the logit above and the inverted index
// below, so that no two are equal and the k largest are the same in whatever order they came. When more than 2 k + 64 are held, the k
// largest are kept, found by bisection over the keys, and the least of them is the new threshold. As later indices lose ties, a row of
// equal logits has no candidates but the first. All lanes' candidates are in one list: no winner is lost, wherever the winners lie.
//
// Sums are f32: 16 terms a tile, tiles of a thread, lanes and warps, so chains have 16 + vocab / (16 block) + 10 terms. Exponentials are
// expf's, with an argument that is rounded once. The only atomic is the place in the list of candidates: results do not depend on
// the order of blocks or warps.
//
// Milakov, Gimelshein 2018, "Online normalizer calculation for softmax", https://arxiv.org/abs/1805.02867. What `softmax_topk.ptx` is
// made by, and what runs it without a GPU, is in README.md beside this file; with nvcc: nvcc -std=c++17 -arch=sm_80 -ptx softmax_topk.cu.

#include <cuda_fp16.h>

typedef unsigned long long Key;

constexpr int LANES = 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr int MAX_THREADS = 512;
constexpr int MAX_WARPS = MAX_THREADS / LANES;
constexpr int VECTOR_BYTES = 16;
constexpr int SECTOR_BYTES = 32;
constexpr int MAX_K = 256;
// Logits of a thread in a tile.
constexpr int TILE = 16;
// More candidates than this are cut down to k: enough for a cut to be rare, few enough for the threshold to follow.
__host__ __device__ constexpr int most_held(int k) { return 2 * k + 64; }
// What is no logit: the maximum of none. Differences with it are not NaN, as they would be with -inf.
constexpr float NO_MAXIMUM = -3.402823466e38f;

// No key reaches it.
constexpr Key NO_BOUND = ~static_cast<Key>(0);

static_assert(MAX_WARPS * LANES == MAX_THREADS, "blocks are whole warps");
static_assert(SECTOR_BYTES % VECTOR_BYTES == 0, "sectors are whole vectors");
static_assert(MAX_WARPS <= LANES, "a warp can add up what the warps of a block found");
static_assert(TILE <= 32, "a thread's candidates in a tile are bits of a mask");
static_assert(most_held(MAX_K) == 576, "the launch computes with this");

// By its bits: the name for it is in a header that not every compiler has.
__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// -- Logits --------------------------------------------------------------------------------------------------------------------------

struct F32 {
    typedef float Storage;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return x; }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) { to[0] = __uint_as_float(word); }
};

struct F16 {
    typedef unsigned short Storage;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return __half2float(__ushort_as_half(x)); }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) {
        to[0] = widen(static_cast<Storage>(word & 0xffff));
        to[1] = widen(static_cast<Storage>(word >> 16));
    }
};

struct Bf16 {
    typedef unsigned short Storage;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) {
        to[0] = __uint_as_float(word << 16);
        to[1] = __uint_as_float(word & 0xffff0000u);
    }
};

// Logits first .. first + LEN of a row, where `first` is at a multiple of 16 bytes; -inf where the row has none. Returns a bit for
// each that it has.
template <typename L> __device__ __forceinline__ unsigned load(float *to, const typename L::Storage *row, int first, int vocab) {
    constexpr int LEN = L::LEN, WORD = LEN / 4;
    if (first >= 0 && first + LEN <= vocab) {
        const uint4 words = *reinterpret_cast<const uint4 *>(row + first);
        L::widen_word(to, words.x);
        L::widen_word(to + WORD, words.y);
        L::widen_word(to + 2 * WORD, words.z);
        L::widen_word(to + 3 * WORD, words.w);
        return (1u << LEN) - 1;
    }
    unsigned present = 0;
#pragma unroll
    for (int j = 0; j < LEN; ++j) {
        const bool has = static_cast<unsigned>(first + j) < static_cast<unsigned>(vocab);
        to[j] = has ? L::widen(row[first + j]) : minus_infinity();
        present |= has ? 1u << j : 0;
    }
    return present;
}

// -- Keys ----------------------------------------------------------------------------------------------------------------------------

// Keys order as logits do, and the smaller index above among equals. 0 is no key. NaN is like -inf, and -0 like 0.
__device__ __forceinline__ Key make_key(float x, int index) {
    const unsigned bits = __float_as_uint(x == x ? x + 0.0f : minus_infinity());
    const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return static_cast<Key>(ordered) << 32 | ~static_cast<unsigned>(index);
}

__device__ __forceinline__ float key_logit(Key key) {
    const unsigned ordered = static_cast<unsigned>(key >> 32);
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

__device__ __forceinline__ int key_index(Key key) { return static_cast<int>(~static_cast<unsigned>(key)); }

// -- Sums ----------------------------------------------------------------------------------------------------------------------------

// The sum of exp(x - maximum) over some logits.
struct Total {
    float maximum;
    float sum;
};

__device__ __forceinline__ Total merge(Total a, Total b) {
    Total to;
    to.maximum = fmaxf(a.maximum, b.maximum);
    to.sum = a.sum * expf(a.maximum - to.maximum) + b.sum * expf(b.maximum - to.maximum);
    return to;
}

__device__ __forceinline__ Total warp_merge(Total total) {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
        Total other;
        other.maximum = __shfl_xor_sync(ALL, total.maximum, lanes);
        other.sum = __shfl_xor_sync(ALL, total.sum, lanes);
        total = merge(total, other);
    }
    return total;
}

__device__ __forceinline__ int warp_sum(int value) {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL, value, lanes);
    return value;
}

// -- Candidates ----------------------------------------------------------------------------------------------------------------------

// What a block shares.
struct Shared {
    // Keys in the list, and those that did not find room.
    int held;
    // What warps counted. Halves take turns, so that one barrier is enough.
    int counts[2][MAX_WARPS];
    float maxima[MAX_WARPS];
    float sums[MAX_WARPS];
    Key bests[MAX_WARPS];
};

// Sum over the block of what each warp counted, and in `before` that of the warps before this one. `half` turns with every call.
__device__ __forceinline__ int block_count(int count, int &before, int half, Shared &shared) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    if (lane == 0) shared.counts[half][warp] = count;
    __syncthreads();
    const int other = lane < static_cast<int>(blockDim.x) / LANES ? shared.counts[half][lane] : 0;
    before = warp_sum(lane < warp ? other : 0);
    return warp_sum(other);
}

// Keeps the k largest of `held` > k keys, in front, and returns the least of them. All must be visible to all threads; they are again.
__device__ __forceinline__ Key keep_largest(Key *keys, int held, int k, Shared &shared) {
    const int lane = threadIdx.x % LANES, threads = blockDim.x;
    int half = 0, before;
    // At least k are not below `low`, fewer are not below `high`. Keys differ, so at some place between exactly k are not below.
    Key low = 0, high = NO_BOUND;
    for (int count = held; count != k; half ^= 1) {
        const Key middle = low + (high - low) / 2;
        int mine = 0;
        for (int i = threadIdx.x; i < held; i += threads) mine += keys[i] >= middle;
        const int found = block_count(warp_sum(mine), before, half, shared);
        if (found >= k) {
            low = middle;
            count = found;
        } else {
            high = middle;
        }
    }
    // In order, in steps of the block: a step reads before the barrier in `block_count` and writes after it, and never beyond what
    // has been read. `low` becomes the least key on the way.
    int kept = 0;
    Key least = NO_BOUND;
    for (int start = 0; start < held; start += threads, half ^= 1) {
        const int i = start + static_cast<int>(threadIdx.x);
        const Key key = i < held ? keys[i] : 0;
        const bool keep = key >= low && i < held;
        const unsigned keeping = __ballot_sync(ALL, keep);
        const int found = block_count(__popc(keeping), before, half, shared);
        if (keep) {
            keys[kept + before + __popc(keeping & ((1u << lane) - 1))] = key;
            least = key < least ? key : least;
        }
        kept += found;
    }
    if (threadIdx.x == 0) shared.held = k;
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
        const unsigned upper = __shfl_xor_sync(ALL, static_cast<int>(least >> 32), lanes);
        const unsigned lower = __shfl_xor_sync(ALL, static_cast<int>(least), lanes);
        const Key other = static_cast<Key>(upper) << 32 | lower;
        least = other < least ? other : least;
    }
    if (lane == 0) shared.bests[threadIdx.x / LANES] = least;
    __syncthreads();
    for (int warp = 0; warp < threads / LANES; ++warp) {
        least = shared.bests[warp] < least ? shared.bests[warp] : least;
    }
    __syncthreads();
    return least;
}

// Appends the logits whose bits are set. Lanes of a warp write side by side; what has no room in `capacity` is only counted.
template <typename L>
__device__ __forceinline__ void append(const float (&x)[TILE], unsigned hits, int first, int stride, Key *keys, int capacity, Shared &shared) {
    const int lane = threadIdx.x % LANES;
    const int total = warp_sum(__popc(hits));
    if (total == 0) return;
    int place = 0;
    if (lane == 0) place = atomicAdd(&shared.held, total);
    place = __shfl_sync(ALL, place, 0);
#pragma unroll
    for (int e = 0; e < TILE; ++e) {
        const bool hit = hits >> e & 1;
        const unsigned hitting = __ballot_sync(ALL, hit);
        const int mine = place + __popc(hitting & ((1u << lane) - 1));
        if (hit && mine < capacity) keys[mine] = make_key(x[e], first + e / L::LEN * stride + e % L::LEN);
        place += __popc(hitting);
    }
}

// Which of a tile's logits are above the threshold, or all that are present while there is none; of these, those below `below`.
template <typename L>
__device__ __forceinline__ unsigned above(const float (&x)[TILE], unsigned present, bool open, float threshold, int first, int stride, Key below) {
    unsigned hits = 0;
#pragma unroll
    for (int e = 0; e < TILE; ++e) hits |= x[e] > threshold ? 1u << e : 0;
    hits = (open ? ALL : hits) & present;
    if (below != NO_BOUND) {
#pragma unroll
        for (int e = 0; e < TILE; ++e) {
            if (make_key(x[e], first + e / L::LEN * stride + e % L::LEN) >= below) hits &= ~(1u << e);
        }
    }
    return hits;
}

// Reads vectors `begin` .. `end` of a row once. Leaves the k largest keys below `below`, or all if there are fewer, in `keys`, in any order,
// and returns how many; `total` becomes that of the thread's logits.
template <typename L>
__device__ __forceinline__ int scan(const typename L::Storage *row, int vocab, int shift, int begin, int end, int k, Key below, Key *keys,
                                    Shared &shared, Total &total) {
    constexpr int LEN = L::LEN, VECTORS = TILE / LEN;
    constexpr unsigned WHOLE = (1u << TILE) - 1, VECTOR = (1u << LEN) - 1;
    static_assert(VECTORS * LEN == TILE && VECTORS > 1, "a tile is some whole vectors");
    const int stride = blockDim.x * LEN, step = blockDim.x * VECTORS;
    const int capacity = most_held(MAX_K) + stride;
    bool open = true;
    float threshold = minus_infinity();
    int held = 0;
    if (threadIdx.x == 0) shared.held = 0;
    for (int tile = begin; tile < end; tile += step) {
        const int first = (tile + static_cast<int>(threadIdx.x)) * LEN - shift;
        float x[TILE];
        unsigned present = 0;
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const bool mine = tile + static_cast<int>(threadIdx.x + v * blockDim.x) < end;
            present |= load<L>(x + v * LEN, row, mine ? first + v * stride : vocab, vocab) << v * LEN;
        }
        float maximum = total.maximum;
#pragma unroll
        for (int e = 0; e < TILE; ++e) maximum = fmaxf(maximum, x[e]);
        float sum = 0.0f;
#pragma unroll
        for (int e = 0; e < TILE; ++e) sum += expf(x[e] - maximum);
        if (maximum > total.maximum) {
            total.sum *= expf(total.maximum - maximum);
            total.maximum = maximum;
        }
        total.sum += sum;

        // After the last tile k are left, after others what the list may keep.
        const bool last = tile + step >= end;
        const int limit = last ? k : most_held(k);
        // The whole tile at once; if that is more than the list can take, again by vectors, for each of which it has room.
        unsigned piece = WHOLE;
        while (piece != 0) {
            const unsigned hits = above<L>(x, present & piece, open, threshold, first, stride, below);
            unsigned next = piece == WHOLE ? 0 : piece << LEN & WHOLE;
            if (__syncthreads_or(hits != 0) || last) {
                append<L>(x, hits, first, stride, keys, capacity, shared);
                __syncthreads();
                const int wanted = shared.held;
                if (wanted > capacity) {
                    __syncthreads();
                    if (threadIdx.x == 0) shared.held = held;
                    next = VECTOR;
                } else {
                    held = wanted;
                    if (held > limit) {
                        threshold = key_logit(keep_largest(keys, held, k, shared));
                        held = k;
                        open = false;
                    }
                }
            }
            piece = next;
        }
    }
    __syncthreads();
    return held;
}

// The totals of all threads, the same in each.
__device__ __forceinline__ Total block_merge(Total total, Shared &shared) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    total = warp_merge(total);
    if (lane == 0) {
        shared.maxima[warp] = total.maximum;
        shared.sums[warp] = total.sum;
    }
    __syncthreads();
    const bool has = lane < static_cast<int>(blockDim.x) / LANES;
    total.maximum = has ? shared.maxima[lane] : NO_MAXIMUM;
    total.sum = has ? shared.sums[lane] : 0.0f;
    return warp_merge(total);
}

// Sorts `held` keys, at most MAX_K: a key's place is how many are larger.
__device__ __forceinline__ void sort(Key *keys, int held) {
    constexpr int MOST = MAX_K / (2 * LANES);
    Key mine[MOST];
    int places[MOST];
#pragma unroll
    for (int n = 0; n < MOST; ++n) {
        const int i = threadIdx.x + n * blockDim.x;
        mine[n] = i < held ? keys[i] : 0;
        places[n] = 0;
        if (n * static_cast<int>(blockDim.x) < held) {
            for (int other = 0; other < held; ++other) places[n] += keys[other] > mine[n];
        }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < MOST; ++n) {
        if (static_cast<int>(threadIdx.x + n * blockDim.x) < held) keys[places[n]] = mine[n];
    }
    __syncthreads();
}

// Writes entries of `held` sorted keys, and what is said of entries that are not there, up to `wanted`.
__device__ __forceinline__ void put(const Key *keys, int held, int wanted, Total total, float *probs, long long *indices) {
    for (int i = threadIdx.x; i < wanted; i += blockDim.x) {
        const bool has = i < held;
        // Of nothing but -inf the sum is 0, and with a NaN it is NaN: no probability comes of it.
        probs[i] = has ? expf(key_logit(keys[i]) - total.maximum) / total.sum : 0.0f;
        indices[i] = has ? key_index(keys[i]) : -1;
    }
}

// Logits of a row's first sector that are before it.
template <typename L> __device__ __forceinline__ int shift_of(const typename L::Storage *row) {
    return static_cast<int>(reinterpret_cast<size_t>(row) / sizeof(typename L::Storage) % (SECTOR_BYTES / sizeof(typename L::Storage)));
}

template <typename L> __device__ __forceinline__ int vectors_of(int shift, int vocab) { return (shift + vocab + L::LEN - 1) / L::LEN; }

// -- Plain: a read for the maximum, one for the sum, and one for each of the k. --------------------------------------------------------

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
softmax_topk_plain_f32(const float *logits, float *probs, long long *indices, int vocab, int k) {
    __shared__ Shared shared;
    const float *row = logits + static_cast<long long>(blockIdx.x) * vocab;
    const long long start = static_cast<long long>(blockIdx.x) * k;
    Total total = {NO_MAXIMUM, 0.0f};
    for (int j = threadIdx.x; j < vocab; j += blockDim.x) total.maximum = fmaxf(total.maximum, row[j]);
    for (int j = threadIdx.x; j < vocab; j += blockDim.x) total.sum += expf(row[j] - total.maximum);
    total = block_merge(total, shared);
    Key last = NO_BOUND;
    for (int i = 0; i < k; ++i) {
        Key best = 0;
        for (int j = threadIdx.x; j < vocab; j += blockDim.x) {
            const Key key = make_key(row[j], j);
            if (key < last && key > best) best = key;
        }
#pragma unroll
        for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
            const unsigned upper = __shfl_xor_sync(ALL, static_cast<int>(best >> 32), lanes);
            const unsigned lower = __shfl_xor_sync(ALL, static_cast<int>(best), lanes);
            const Key other = static_cast<Key>(upper) << 32 | lower;
            best = other > best ? other : best;
        }
        if (threadIdx.x % LANES == 0) shared.bests[threadIdx.x / LANES] = best;
        __syncthreads();
        for (int warp = 0; warp < static_cast<int>(blockDim.x) / LANES; ++warp) {
            best = shared.bests[warp] > best ? shared.bests[warp] : best;
        }
        __syncthreads();
        if (threadIdx.x == 0) put(&best, best != 0, 1, total, probs + start + i, indices + start + i);
        last = best;
    }
}

// -- Fast ----------------------------------------------------------------------------------------------------------------------------

// One read of the logits for each 256 of k. The first gives the sum.
template <typename L>
__device__ __forceinline__ void topk(const typename L::Storage *__restrict__ logits, float *__restrict__ probs,
                                     long long *__restrict__ indices, int vocab, int k) {
    extern __shared__ Key keys[];
    __shared__ Shared shared;
    const typename L::Storage *row = logits + static_cast<long long>(blockIdx.x) * vocab;
    const int shift = shift_of<L>(row), vectors = vectors_of<L>(shift, vocab);
    Total total = {NO_MAXIMUM, 0.0f};
    Key below = NO_BOUND;
    for (int done = 0; done < k; done += MAX_K) {
        const int wanted = min(k - done, MAX_K);
        const long long start = static_cast<long long>(blockIdx.x) * k + done;
        Total read = {NO_MAXIMUM, 0.0f};
        const int held = scan<L>(row, vocab, shift, 0, vectors, wanted, below, keys, shared, read);
        if (done == 0) total = block_merge(read, shared);
        sort(keys, held);
        put(keys, held, wanted, total, probs + start, indices + start);
        // With nothing left, no key is below 0.
        below = held == wanted ? keys[held - 1] : 0;
        __syncthreads();
    }
}

// A part of a row: its total and its k largest keys, zeros where there are fewer.
template <typename L>
__device__ __forceinline__ void split(const typename L::Storage *__restrict__ logits, float *__restrict__ maxima, float *__restrict__ sums,
                                      Key *__restrict__ parts, int vocab, int k, int splits) {
    extern __shared__ Key keys[];
    __shared__ Shared shared;
    const typename L::Storage *row = logits + static_cast<long long>(blockIdx.x / splits) * vocab;
    const int shift = shift_of<L>(row), vectors = vectors_of<L>(shift, vocab);
    const int each = (vectors + splits - 1) / splits;
    const int begin = min(static_cast<int>(blockIdx.x % splits) * each, vectors), end = min(begin + each, vectors);
    Total total = {NO_MAXIMUM, 0.0f};
    const int held = scan<L>(row, vocab, shift, begin, end, k, NO_BOUND, keys, shared, total);
    total = block_merge(total, shared);
    if (threadIdx.x == 0) {
        maxima[blockIdx.x] = total.maximum;
        sums[blockIdx.x] = total.sum;
    }
    Key *to = parts + static_cast<long long>(blockIdx.x) * k;
    for (int i = threadIdx.x; i < k; i += blockDim.x) to[i] = i < held ? keys[i] : 0;
}

#define SOFTMAX_TOPK(NAME, L)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS)                                                                            \
    softmax_topk_##NAME(const L::Storage *logits, float *probs, long long *indices, int vocab, int k) {                                  \
        topk<L>(logits, probs, indices, vocab, k);                                                                                       \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS)                                                                            \
    softmax_topk_split_##NAME(const L::Storage *logits, float *maxima, float *sums, Key *keys, int vocab, int k, int splits) {           \
        split<L>(logits, maxima, sums, keys, vocab, k, splits);                                                                          \
    }

SOFTMAX_TOPK(f32, F32)
SOFTMAX_TOPK(f16, F16)
SOFTMAX_TOPK(bf16, Bf16)

// The parts of a row put together.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
softmax_topk_merge(const float *maxima, const float *sums, const Key *parts, float *probs, long long *indices, int k, int splits) {
    extern __shared__ Key keys[];
    __shared__ Shared shared;
    const long long row = blockIdx.x;
    Total total = {NO_MAXIMUM, 0.0f};
    for (int i = threadIdx.x; i < splits; i += blockDim.x) {
        Total part;
        part.maximum = maxima[row * splits + i];
        part.sum = sums[row * splits + i];
        total = merge(total, part);
    }
    total = block_merge(total, shared);
    const long long entries = static_cast<long long>(splits) * k;
    Key least = 0;
    int held = 0, half = 0;
    for (long long start = 0; start < entries; start += blockDim.x, half ^= 1) {
        const Key key = start + threadIdx.x < entries ? parts[row * entries + start + threadIdx.x] : 0;
        const bool keep = key > least;
        const unsigned keeping = __ballot_sync(ALL, keep);
        int before;
        const int found = block_count(__popc(keeping), before, half, shared);
        if (keep) keys[held + before + __popc(keeping & ((1u << threadIdx.x % LANES) - 1))] = key;
        held += found;
        if (held > most_held(k)) {
            __syncthreads();
            least = keep_largest(keys, held, k, shared);
            held = k;
        }
    }
    __syncthreads();
    if (held > k) {
        keep_largest(keys, held, k, shared);
        held = k;
    }
    sort(keys, held);
    put(keys, held, k, total, probs + row * k, indices + row * k);
}
