// Softmax over each row of logits, and its k largest probabilities, without storing the probabilities of a row.
//
//   probs[r, i] = exp(logits[r, j] - lse[r]),   j = indices[r, i],   lse[r] = log(sum_j exp(logits[r, j]))
//
// for the k largest of the row, in falling order; among equals the smaller index comes first.
//
// Buffers: logits [rows, vocab], row-major, contiguous, f32, or f16 or bf16 as 16 bits; aligned to its elements. probs [rows, k] f32.
// indices [rows, k] int64. For split rows, scratch: totals [rows, splits] of 16 bytes, parts [rows, splits, k] of 64 bits, and counters [rows]
// of 32 bits, which are zero before a launch, and after it. Any rows; vocab from 1 to 2^30. Offsets of rows are of 64 bits.
//
// Entries with no answer: a row with a NaN, or of nothing but -inf, has NaN as its probabilities, and indices of the row. A logit of -inf is
// named, with probability 0, where fewer than k others exist. Beyond vocab the probability is 0 and the index -1.
//
// Launches, for T = f32, f16, bf16; block: 64 to 512, a multiple of 32; dynamic shared bytes: 160 * block + 8 * (4 * min(k, 256) + 64):
//   softmax_topk_T          any k        grid: rows             a read for each 256 of k
//   softmax_topk_split_T    k to 256     grid: (splits, rows)   for fewer rows than multiprocessors; a part wants 32 KiB of a row or more
//   softmax_topk_plain_f32  any k        grid: rows             no shared bytes; k + 2 reads of the logits
// 512 threads where a multiprocessor has a row or two, 256 where there are more. Static shared memory: 6 KiB. Bank conflicts: where keys go to
// their places, and candidates to the list. Compute capability 8.0 or higher.
//
// Method. A block reads a row once, in tiles of four vectors of 16 bytes a thread, counted from the line of 128 bytes in which the row
// begins. Two tiles are on their way (cp.async), to where the thread that copies will read them, so that no barrier is needed for it; what
// is not wholly of the row goes element by element. Each thread keeps the maximum and the sum so far of its logits (Milakov and
// Gimelshein's recurrence, one rescaling a tile). Candidates are what reaches a threshold: one comparison with a tile's largest for most
// threads, and one barrier a tile. The first threshold is below k of the largest logits of threads, or groups of them, in the first tile; as these
// are so many logits, no winner is below, and little else is above. Candidates are gathered in shared memory as keys of 64 bits, the logit above
// and the inverted index below, so that no two are equal and the k largest are the same in whatever order they came. When more than
// 4 k + 64 are held, some k are kept, and the least of them is the new threshold. As later indices lose ties, a row of equal logits
// has no candidates but the first. All lanes' candidates are in one list: no winner is lost, wherever the winners lie. At the end the list is
// sorted by the bins of a histogram between the threshold and the maximum; bins with the winners have few keys, and are ordered within.
// Logits of -inf are candidates only where others do not suffice: then they are looked for once more, from the beginning.
//
// Sums are f32: 4 or 8 terms of a tile in each of four chains, tiles of a thread, lanes and warps, so chains have 10 + vocab / (16 block) + 10
// terms at most. Their exponentials are ex2.approx of an argument that is rounded twice; those of the winners are expf's. Results do not depend
// on the order of blocks, warps or atomics.
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
constexpr int LINE_BYTES = 128;
// Vectors of a thread in a tile.
constexpr int VECTORS = 4;
// Tiles on their way.
constexpr int STAGES = 2;
// Logits of a thread for which there must be room in the list of candidates.
constexpr int PIECE = 4;
constexpr int MAX_K = 256;
// More candidates than this are cut down to about k: enough for a cut to be rare, few enough for the threshold to follow.
__host__ __device__ constexpr int most_held(int k) { return 4 * k + 64; }
// What a cut may keep beyond k.
constexpr int SLACK = 64;
constexpr int BIN_ROWS = 8, BINS = BIN_ROWS * LANES, LOG_BINS = 8;
// Steps of the search for a first threshold, which ends sooner where it is near enough.
constexpr int SEARCH_STEPS = 8;
// What is no logit: the maximum of none, and below every finite one that is a candidate. Differences with it are not NaN, as they would
// be with -inf.
constexpr float NO_MAXIMUM = -3.402823466e38f;

// No key reaches it.
constexpr Key NO_BOUND = ~static_cast<Key>(0);

static_assert(MAX_WARPS * LANES == MAX_THREADS, "blocks are whole warps");
static_assert(LINE_BYTES % VECTOR_BYTES == 0, "lines are whole vectors");
static_assert(MAX_WARPS <= LANES, "a warp can add up what the warps of a block found");
static_assert(1 << LOG_BINS == BINS, "a digit is a bin");
static_assert(STAGES * VECTORS * VECTOR_BYTES + PIECE * sizeof(Key) == 160 && most_held(1) == 68, "launches compute with these");

// By its bits: the name for it is in a header that not every compiler has.
__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }

// -- Logits --------------------------------------------------------------------------------------------------------------------------

struct F32 {
    typedef float Storage;
    // As many of -inf as are 32 bits.
    static constexpr unsigned NONE = 0xff800000u;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return x; }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) { to[0] = __uint_as_float(word); }
    // The largest of a vector that is not NaN.
    static __device__ __forceinline__ float largest(uint4 v) {
        return fmaxf(fmaxf(__uint_as_float(v.x), __uint_as_float(v.y)), fmaxf(__uint_as_float(v.z), __uint_as_float(v.w)));
    }
};

struct F16 {
    typedef unsigned short Storage;
    static constexpr unsigned NONE = 0xfc00fc00u;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return __half2float(__ushort_as_half(x)); }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) {
        to[0] = widen(static_cast<Storage>(word & 0xffff));
        to[1] = widen(static_cast<Storage>(word >> 16));
    }
    static __device__ __forceinline__ unsigned larger(unsigned a, unsigned b) {
        unsigned to;
        asm("max.f16x2 %0, %1, %2;" : "=r"(to) : "r"(a), "r"(b));
        return to;
    }
    static __device__ __forceinline__ float largest(uint4 v) {
        float both[2];
        widen_word(both, larger(larger(v.x, v.y), larger(v.z, v.w)));
        return fmaxf(both[0], both[1]);
    }
};

struct Bf16 {
    typedef unsigned short Storage;
    static constexpr unsigned NONE = 0xff80ff80u;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) {
        to[0] = __uint_as_float(word << 16);
        to[1] = __uint_as_float(word & 0xffff0000u);
    }
    static __device__ __forceinline__ unsigned larger(unsigned a, unsigned b) {
        unsigned to;
        asm("max.bf16x2 %0, %1, %2;" : "=r"(to) : "r"(a), "r"(b));
        return to;
    }
    static __device__ __forceinline__ float largest(uint4 v) {
        float both[2];
        widen_word(both, larger(larger(v.x, v.y), larger(v.z, v.w)));
        return fmaxf(both[0], both[1]);
    }
};

static_assert(F32::LEN == PIECE && F16::LEN == 2 * PIECE, "a vector is one piece or two");

template <typename L> __device__ __forceinline__ void widen(float (&to)[L::LEN], uint4 v) {
    constexpr int WORD = L::LEN / 4;
    L::widen_word(to, v.x);
    L::widen_word(to + WORD, v.y);
    L::widen_word(to + 2 * WORD, v.z);
    L::widen_word(to + 3 * WORD, v.w);
}

// 32 bits of logits from `first` on, which are -inf but from `begin` to `end`.
template <typename L> __device__ __forceinline__ unsigned load_word(const typename L::Storage *row, int first, int begin, int end) {
    if constexpr (sizeof(typename L::Storage) == 4) {
        return first >= begin && first < end ? __float_as_uint(row[first]) : L::NONE;
    } else {
        const unsigned low = first >= begin && first < end ? row[first] : L::NONE & 0xffffu;
        const unsigned high = first + 1 >= begin && first + 1 < end ? row[first + 1] : L::NONE & 0xffffu;
        return low | high << 16;
    }
}

__device__ __forceinline__ void copy_vector(uint4 *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

// Begins to copy a thread's vectors of a tile to where it will read them, `threads` apart: logits first + v * stride .. + LEN of a row, where
// `first` is at a multiple of 16 bytes; -inf but from `begin` to `end`. `whole`: nothing of the tile is.
template <typename L>
__device__ __forceinline__ void fetch(uint4 *to, const typename L::Storage *row, int first, int stride, int begin, int end, bool whole) {
    constexpr int WORD = L::LEN / 4;
    const int threads = blockDim.x;
    if (whole) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) copy_vector(to + v * threads, row + (first + v * stride));
        return;
    }
#pragma unroll 1
    for (int v = 0; v < VECTORS; ++v) {
        const int at = first + v * stride;
        if (at >= begin && at + L::LEN <= end) {
            copy_vector(to + v * threads, row + at);
        } else {
            // Most of these are beyond the row altogether.
            constexpr unsigned NONE = L::NONE;
            to[v * threads] = make_uint4(NONE, NONE, NONE, NONE);
            if (at + L::LEN <= begin || at >= end) continue;
            unsigned *const words = reinterpret_cast<unsigned *>(to + v * threads);
#pragma unroll 1
            for (int w = 0; w < 4; ++w) words[w] = load_word<L>(row, at + w * WORD, begin, end);
        }
    }
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int MOST> __device__ __forceinline__ void wait_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(MOST) : "memory"); }

// -- Keys ----------------------------------------------------------------------------------------------------------------------------

// Order as logits do. NaN is like -inf, and -0 like 0.
__device__ __forceinline__ unsigned make_order(float x) {
    const unsigned bits = __float_as_uint(x == x ? x + 0.0f : minus_infinity());
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float order_logit(unsigned order) {
    return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

// Keys order as logits do, and the smaller index above among equals. 0 is no key.
__device__ __forceinline__ Key make_key(float x, int index) {
    return static_cast<Key>(make_order(x)) << 32 | ~static_cast<unsigned>(index);
}

__device__ __forceinline__ float key_logit(Key key) { return order_logit(static_cast<unsigned>(key >> 32)); }

__device__ __forceinline__ int key_index(Key key) { return static_cast<int>(~static_cast<unsigned>(key)); }

// The least and the greatest key of a logit.
__device__ __forceinline__ Key lowest(float x) { return static_cast<Key>(make_order(x)) << 32; }
__device__ __forceinline__ Key highest(float x) { return lowest(x) | ALL; }

// Makes logits whose keys are not below `below` such as are no candidates.
template <typename L> __device__ __forceinline__ void hide(uint4 (&x)[VECTORS], int first, int stride, Key below) {
    constexpr int WORD = L::LEN / 4;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        unsigned *words[4] = {&x[v].x, &x[v].y, &x[v].z, &x[v].w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            float wide[WORD];
            L::widen_word(wide, *words[w]);
            const int at = first + v * stride + w * WORD;
            if constexpr (WORD == 1) {
                if (make_key(wide[0], at) >= below) *words[w] = L::NONE;
            } else {
                if (make_key(wide[0], at) >= below) *words[w] = (*words[w] & 0xffff0000u) | (L::NONE & 0xffffu);
                if (make_key(wide[1], at + 1) >= below) *words[w] = (*words[w] & 0xffffu) | (L::NONE & 0xffff0000u);
            }
        }
    }
}

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
    const float maximum = order_logit(__reduce_max_sync(ALL, make_order(total.maximum)));
    float sum = total.sum * expf(total.maximum - maximum);
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(ALL, sum, lanes);
    return {maximum, sum};
}

// exp(x) for x <= 0, as exact as the instruction.
__device__ __forceinline__ float fast_exp(float x) {
    float to;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(to) : "f"(x * 1.44269504f));
    return to;
}

// A tile's exponentials added to the total, given the tile's maximum.
template <typename L> __device__ __forceinline__ void add(Total &total, const uint4 (&x)[VECTORS], float largest) {
    const float maximum = fmaxf(total.maximum, largest);
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        float wide[L::LEN];
        widen<L>(wide, x[v]);
#pragma unroll
        for (int e = 0; e < L::LEN; ++e) sums[e % 4] += fast_exp(wide[e] - maximum);
    }
    total.sum = fmaf(total.sum, fast_exp(total.maximum - maximum), (sums[0] + sums[1]) + (sums[2] + sums[3]));
    total.maximum = maximum;
}

// -- Candidates ----------------------------------------------------------------------------------------------------------------------

// The bin in which the k-th largest key is.
struct Bin {
    int bin;
    // Keys above, and with those in it.
    int over, reached;
};

// What a block shares.
struct Shared {
    // Of three in turn one is counted in, one is read, and one is made zero: one barrier is enough between two steps.
    int added[3];
    // Two in turn: between them there are two barriers.
    int bins[2][BINS];
    int starts[BINS];
    Bin bin;
    int kept;
    int is_last;
    float threshold;
    unsigned least;
    int counts[2][MAX_WARPS];
    float maxima[MAX_WARPS];
    float sums[MAX_WARPS];
    Key bests[MAX_WARPS];
    union {
        unsigned largest[MAX_THREADS];
        Key sorted[MAX_K + SLACK];
    };
};

// Which of them a block is at; the same in all threads.
struct Turn {
    int added;
    int bins;
};


__device__ __forceinline__ int after(int turn) { return turn == 2 ? 0 : turn + 1; }

// Before the first barrier of a kernel.
__device__ __forceinline__ void clear(Shared &shared) {
#pragma unroll 1
    for (int i = threadIdx.x; i < 2 * BINS; i += blockDim.x) shared.bins[0][i] = 0;
    if (threadIdx.x < 3) shared.added[threadIdx.x] = 0;
}

__device__ __forceinline__ int warp_sum(int value) { return __reduce_add_sync(ALL, value); }

// Of logits whose orders are the largest of groups, at least k are not below what is returned; few more if that can be had. By one warp.
__device__ __forceinline__ float lower_bound(const unsigned *orders, int groups, int k) {
    const int lane = threadIdx.x % LANES;
    const unsigned floor = make_order(NO_MAXIMUM);
    unsigned least = ~0u, most = 0;
    int count = 0;
#pragma unroll 1
    for (int n = lane; n < groups; n += LANES) {
        least = min(least, orders[n]);
        most = max(most, orders[n]);
        count += orders[n] >= floor;
    }
    if (warp_sum(count) < k) return NO_MAXIMUM;
    unsigned low = max(__reduce_min_sync(ALL, least), floor), high = __reduce_max_sync(ALL, most) + 1;
    // At least k are not below `low`, fewer are not below `high`; three places between are tried at once, their counts in one sum.
#pragma unroll 1
    for (int step = 0; step < SEARCH_STEPS && high - low > 3; ++step) {
        const unsigned quarter = (high - low) / 4;
        const unsigned places[3] = {low + quarter, low + 2 * quarter, low + 3 * quarter};
        unsigned mine = 0;
#pragma unroll 1
        for (int n = lane; n < groups; n += 4 * LANES) {
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                const unsigned order = n + m * LANES < groups ? orders[n + m * LANES] : 0;
#pragma unroll
                for (int p = 0; p < 3; ++p) mine += order >= places[p] ? 1u << 10 * p : 0;
            }
        }
        const unsigned found = __reduce_add_sync(ALL, mine);
        int reached = groups;
#pragma unroll
        for (int p = 0; p < 3; ++p) {
            const int here = static_cast<int>(found >> 10 * p & 1023);
            if (here >= k) {
                low = places[p];
                reached = here;
            }
        }
        high = low == places[2] ? high : low + quarter;
        if (reached <= k + k / 4) break;
    }
    return order_logit(low);
}

// A threshold which at least k logits reach, from the largest logit of each thread. Two barriers.
__device__ __forceinline__ float find_threshold(float largest, int k, Shared &shared) {
    unsigned order = make_order(largest);
    int groups = blockDim.x, log = 0;
    // Half as many groups are as good while they are many more than k, and sooner searched.
#pragma unroll
    for (int lanes = 1; lanes <= 2; lanes *= 2) {
        if (groups >= 8 * LANES && groups >= 4 * k) {
            const unsigned other = __shfl_xor_sync(ALL, order, lanes);
            order = max(order, other);
            groups /= 2;
            ++log;
        }
    }
    if ((threadIdx.x & ((1u << log) - 1)) == 0) shared.largest[threadIdx.x >> log] = order;
    __syncthreads();
    if (threadIdx.x < LANES) {
        const float bound = lower_bound(shared.largest, groups, k);
        if (threadIdx.x == 0) shared.threshold = bound;
    }
    __syncthreads();
    return shared.threshold;
}

// Appends the logits that reach the threshold, of a thread's vectors in `piece`; what has no room in `capacity` is only counted. First they are
// found without a branch for each, so that a thread asks for places once.
template <typename L>
__device__ __forceinline__ void append(const uint4 *slot, unsigned piece, float threshold, int first, int stride, Key *keys, int held,
                                       int capacity, int *added) {
    constexpr int LEN = L::LEN, WORD = LEN / 4;
    const int threads = blockDim.x;
    unsigned hits = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        float wide[LEN];
        widen<L>(wide, slot[v * threads]);  // scattered
        unsigned mine = 0;
#pragma unroll
        for (int e = 0; e < LEN; ++e) mine |= wide[e] >= threshold ? 1u << e : 0;
        hits |= piece >> v & 1 ? mine << v * LEN : 0;
    }
    if (hits == 0) return;
    int place = held + atomicAdd(added, __popc(hits));
#pragma unroll 1
    for (; hits != 0; hits &= hits - 1, ++place) {
        const int bit = __ffs(static_cast<int>(hits)) - 1, v = bit / LEN, e = bit % LEN;
        float wide[WORD];
        L::widen_word(wide, reinterpret_cast<const unsigned *>(slot + v * threads)[e / WORD]);  // scattered
        const float value = WORD == 2 && e % 2 ? wide[WORD - 1] : wide[0];
        if (place < capacity) keys[place] = make_key(value, first + v * stride + e);  // scattered
    }
}

// Keys that are not below `low`, and how many they are.
struct Range {
    Key low;
    int count;
};

// The bin of a key that is in a range of at most 2^(shift + LOG_BINS) keys.
__device__ __forceinline__ int bin_of(Key key, Key low, int shift) { return static_cast<int>((key - low) >> shift); }

// Where a bin is: a lane's neighbours are in neighbouring banks, and its own bins follow each other.
__device__ __forceinline__ int place_of(int bin) { return bin % BIN_ROWS * LANES + bin / BIN_ROWS; }

__device__ __forceinline__ int shift_for(Key low, Key high) {
    const int bits = 64 - __clzll(static_cast<long long>(high - low));
    return bits > LOG_BINS ? bits - LOG_BINS : 0;
}

// Of lanes in order, the sum of `value` over this one and those above.
__device__ __forceinline__ int sum_from(int value) {
    const int lane = threadIdx.x % LANES;
#pragma unroll
    for (int lanes = 1; lanes < LANES; lanes *= 2) {
        const int other = __shfl_down_sync(ALL, value, lanes);
        value += lane + lanes < LANES ? other : 0;
    }
    return value;
}

// Counts keys from `low` to `high` by bins, and leaves in `starts` how many are in higher ones. All threads must see the keys. Two barriers.
__device__ __forceinline__ Bin count_bins(const Key *keys, int held, int k, Key low, Key high, int shift, Shared &shared, Turn &turn) {
    int *bins = shared.bins[turn.bins], *next = shared.bins[turn.bins ^ 1];
    turn.bins ^= 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) next[i] = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < held; i += blockDim.x) {
        const Key key = keys[i];
        if (key >= low && key <= high) atomicAdd(&bins[place_of(bin_of(key, low, shift))], 1);  // scattered
    }
    __syncthreads();
    // By one warp: what all do takes the time of all.
    if (threadIdx.x < LANES) {
        const int lane = threadIdx.x;
        int counts[BIN_ROWS], mine = 0;
#pragma unroll
        for (int n = 0; n < BIN_ROWS; ++n) {
            counts[n] = bins[n * LANES + lane];
            mine += counts[n];
        }
        int over = sum_from(mine) - mine;
#pragma unroll
        for (int n = BIN_ROWS - 1; n >= 0; --n) {
            shared.starts[n * LANES + lane] = over;
            if (over < k && over + counts[n] >= k) shared.bin = {lane * BIN_ROWS + n, over, over + counts[n]};
            over += counts[n];
        }
    }
    __syncthreads();
    return shared.bin;
}

// Of `held` >= k keys, such that at least k, and at most k + SLACK, are not below `low`. All threads must see the keys.
__device__ __forceinline__ Range narrow(const Key *keys, int held, int k, Key low, Key high, Shared &shared, Turn &turn) {
    int over = 0, count;
    do {
        const int shift = shift_for(low, high);
        const Bin bin = count_bins(keys, held, k - over, low, high, shift, shared, turn);
        count = over + bin.reached;
        over += bin.over;
        low += static_cast<Key>(bin.bin) << shift;
        high = low + ((static_cast<Key>(1) << shift) - 1);
    } while (count > k + SLACK);
    return {low, count};
}

// Keeps about k, and at least k, of the largest of `held` > k keys, in front; of those at least k are from `low` to `high`, and none above. All
// must be visible to all threads; before the next barrier they are not. What is not above the returned logit and comes later is
// none of the k largest.
__device__ __forceinline__ float cut(Key *keys, int &held, int k, Key low, Key high, Shared &shared, Turn &turn) {
    if (threadIdx.x == 0) shared.kept = 0;
    const Range range = narrow(keys, held, k, low, high, shared, turn);
#pragma unroll 1
    for (int i = threadIdx.x; i < held; i += blockDim.x) {
        const Key key = keys[i];
        if (key >= range.low) shared.sorted[atomicAdd(&shared.kept, 1)] = key;  // scattered
    }
    __syncthreads();
    held = range.count;
#pragma unroll 1
    for (int i = threadIdx.x; i < held; i += blockDim.x) keys[i] = shared.sorted[i];
    return key_logit(range.low);
}

// The least float above; NaN, which nothing reaches, above infinity.
__device__ __forceinline__ float above(float x) { return order_logit(make_order(x) + 1); }

// The k largest of `held` keys, or all if there are fewer, sorted, in front. Returns how many. No key is above `high`; those below `low` are
// none of the k largest. All threads must see the keys; they are seen again.
__device__ __forceinline__ int sort(Key *keys, int held, int k, Key low, Key high, Shared &shared, Turn &turn) {
    k = min(k, held);
    if (k == 0) return 0;
    int shift = shift_for(low, high), reached = count_bins(keys, held, k, low, high, shift, shared, turn).reached;
    if (reached > MAX_K + SLACK) {
        // Logits far above the others, or equal ones.
        low = narrow(keys, held, k, low, high, shared, turn).low;
        shift = shift_for(low, high);
        reached = count_bins(keys, held, k, low, high, shift, shared, turn).reached;
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < held; i += blockDim.x) {
        const Key key = keys[i];
        if (key >= low) {
            const int place = atomicAdd(&shared.starts[place_of(bin_of(key, low, shift))], 1);  // scattered
            if (place < reached) shared.sorted[place] = key;                           // scattered
        }
    }
    __syncthreads();
    // Now starts are ends, and a bin begins where the one above ends.
#pragma unroll 1
    for (int i = threadIdx.x; i < reached; i += blockDim.x) {
        const Key key = shared.sorted[i];
        const int bin = bin_of(key, low, shift);
        const int begin = bin == BINS - 1 ? 0 : shared.starts[place_of(bin + 1)], end = shared.starts[place_of(bin)];  // scattered
        int place = begin;
#pragma unroll 1
        for (int other = begin; other < end; ++other) place += shared.sorted[other] > key;  // scattered
        keys[place] = key;  // scattered
    }
    __syncthreads();
    return k;
}

// Sum over the block of what each warp counted, and in `before` that of the warps before this one. `half` turns with every call.
__device__ __forceinline__ int block_count(int count, int &before, int half, Shared &shared) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    if (lane == 0) shared.counts[half][warp] = count;
    __syncthreads();
    const int other = lane < static_cast<int>(blockDim.x) / LANES ? shared.counts[half][lane] : 0;
    before = warp_sum(lane < warp ? other : 0);
    return warp_sum(other);
}

// Appends logits of -inf and NaN, by index, until `wanted` keys are held.
template <typename L>
__device__ __forceinline__ int fill(const typename L::Storage *row, int begin, int end, int wanted, Key below, Key *keys, int held, Shared &shared) {
    const int lane = threadIdx.x % LANES;
    int half = 0;
#pragma unroll 1
    for (int start = begin; start < end && held < wanted; start += blockDim.x, half ^= 1) {
        const int i = start + static_cast<int>(threadIdx.x);
        const float x = i < end ? L::widen(row[i]) : 0.0f;
        const Key key = make_key(x, i);
        const bool has = !(x >= NO_MAXIMUM) && key < below;
        const unsigned having = __ballot_sync(ALL, has);
        int before;
        const int found = block_count(__popc(having), before, half, shared);
        const int place = held + before + __popc(having & ((1u << lane) - 1));
        if (has && place < wanted) keys[place] = key;
        held = min(held + found, wanted);
    }
    __syncthreads();
    return held;
}

// Reads logits `begin` .. `end` of a row once, in vectors counted from `shift` logits before the row, the first of them `from`. Leaves the k
// largest keys (MORE: of those below `below`), or all if there are fewer, and perhaps others, in `keys`, in any order, and returns how
// many; `total` becomes that of the thread's logits, unless MORE. None of those largest is below `low`.
template <typename L, bool MORE>
__device__ __forceinline__ int scan(const typename L::Storage *row, int from, int begin, int end, int k, Key below, uint4 *slots, Key *keys,
                                    Shared &shared, Turn &turn, Total &total, Key &low) {
    constexpr int LEN = L::LEN;
    constexpr int PIECES = LEN / PIECE;
    constexpr unsigned WHOLE = (1u << VECTORS) - 1;
    const int threads = blockDim.x, stride = threads * LEN, step = stride * VECTORS;
    const int capacity = most_held(k) + threads * PIECE;
    float threshold = NO_MAXIMUM, floor = NO_MAXIMUM;
    int held = 0;
    const int mine = static_cast<int>(threadIdx.x) * LEN;
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
        const int tile = from + s * step;
        if (tile < end) {
            fetch<L>(slots + s * VECTORS * threads + threadIdx.x, row, tile + mine, stride, begin, end, tile >= begin && tile + step <= end);
        }
        end_group();
    }
    int stage = 0;
    for (int tile = from; tile < end; tile += step) {
        uint4 x[VECTORS];
        uint4 *const slot = slots + stage * VECTORS * threads + threadIdx.x;
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        // Threads read what they copied themselves: no barrier is needed.
        wait_groups<STAGES - 1>();
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) x[v] = slot[v * threads];
        const int first = tile + mine;
        if (MORE) {
            hide<L>(x, first, stride, below);
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) slot[v * threads] = x[v];
        }
        float largest = L::largest(x[0]);
#pragma unroll
        for (int v = 1; v < VECTORS; ++v) largest = fmaxf(largest, L::largest(x[v]));
        if (!MORE) add<L>(total, x, largest);

        // The whole tile at once; if that is more than the list can take, with a threshold from this tile, as in the first; if it still
        // is, by vectors, or their lower and upper threads' parts, for each of which there is room.
        bool raise = tile == from, raised = false;
        int piece = -1;
        while (true) {
            if (raise) {
                const float bound = find_threshold(largest, k, shared);
                floor = fmaxf(floor, bound);
                threshold = bound > threshold ? bound : threshold;
                raise = false;
                raised = true;
            }
            int *const added = &shared.added[turn.added];
            turn.added = after(turn.added);
            if (threadIdx.x == 0) shared.added[turn.added] = 0;
            if (largest >= threshold) {
                // Logits are read again: there are not registers for them and all that is rare.
                asm volatile("" ::: "memory");
                unsigned vectors = WHOLE;
                if (piece >= 0) vectors = PIECES * static_cast<int>(threadIdx.x) / threads == piece % PIECES ? 1u << piece / PIECES : 0;
                append<L>(slot, vectors, threshold, first, stride, keys, held, capacity, added);
            }
            __syncthreads();
            const int wanted = held + *added;
            if (wanted > capacity) {
                raise = !raised;
                piece = raised ? 0 : -1;
                continue;
            }
            held = wanted;
            if (held > most_held(k)) {
                floor = cut(keys, held, k, lowest(floor), highest(-minus_infinity()), shared, turn);
                threshold = above(floor);
            }
            if (piece < 0 || ++piece == VECTORS * PIECES) break;
        }
        const int later = tile + STAGES * step;
        if (later < end) fetch<L>(slot, row, later + mine, stride, begin, end, later + step <= end);
        end_group();
    }
    low = lowest(floor);
    if (held < k) {
        __syncthreads();
        held = fill<L>(row, begin, end, k, below, keys, held, shared);
        low = 0;
    }
    return held;
}

// The totals of all threads, the same in each. What was written before is seen by all.
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

// Writes entries of `held` sorted keys, and what is said of entries that are not there, up to `wanted`.
__device__ __forceinline__ void put(const Key *keys, int held, int wanted, Total total, float *probs, long long *indices) {
#pragma unroll 1
    for (int i = threadIdx.x; i < wanted; i += blockDim.x) {
        const bool has = i < held;
        // Of nothing but -inf the sum is 0, and with a NaN it is NaN: no probability comes of it.
        probs[i] = has ? expf(key_logit(keys[i]) - total.maximum) / total.sum : 0.0f;
        indices[i] = has ? key_index(keys[i]) : -1;
    }
}

// Logits of a row's first line that are before it.
template <typename L> __device__ __forceinline__ int shift_of(const typename L::Storage *row) {
    return static_cast<int>(reinterpret_cast<size_t>(row) / sizeof(typename L::Storage) % (LINE_BYTES / sizeof(typename L::Storage)));
}

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
    extern __shared__ uint4 slots[];
    __shared__ Shared shared;
    Key *const keys = reinterpret_cast<Key *>(slots + STAGES * VECTORS * blockDim.x);
    const typename L::Storage *row = logits + static_cast<long long>(blockIdx.x) * vocab;
    const int from = -shift_of<L>(row);
    clear(shared);
    Turn turn = {0, 0};
    Total total = {NO_MAXIMUM, 0.0f};
    Key low;
    const int wanted = min(k, MAX_K);
    const long long start = static_cast<long long>(blockIdx.x) * k;
    int held = scan<L, false>(row, from, 0, vocab, wanted, NO_BOUND, slots, keys, shared, turn, total, low);
    total = block_merge(total, shared);
    held = sort(keys, held, wanted, low, highest(total.maximum), shared, turn);
    put(keys, held, wanted, total, probs + start, indices + start);
    for (int done = MAX_K; done < k; done += MAX_K) {
        const int more = min(k - done, MAX_K);
        // With nothing left, no key is below 0.
        const Key below = held == MAX_K ? keys[MAX_K - 1] : 0;
        __syncthreads();
        held = scan<L, true>(row, from, 0, vocab, more, below, slots, keys, shared, turn, total, low);
        __syncthreads();
        held = sort(keys, held, more, low, highest(total.maximum), shared, turn);
        put(keys, held, more, total, probs + start + done, indices + start + done);
    }
}

// A part of a row: its total and its k largest keys, zeros where there are fewer. The block that is done last puts the parts of the row
// together, and leaves the row's counter at zero. `totals` has for each part the maximum, the sum, the order of the k-th, and nothing.
template <typename L>
__device__ __forceinline__ void split(const typename L::Storage *__restrict__ logits, uint4 *totals, Key *parts, unsigned *counters,
                                      float *__restrict__ probs, long long *__restrict__ indices, int vocab, int k, int splits) {
    extern __shared__ uint4 slots[];
    __shared__ Shared shared;
    Key *const keys = reinterpret_cast<Key *>(slots + STAGES * VECTORS * blockDim.x);
    const int lane = threadIdx.x % LANES, part = blockIdx.x;
    const long long r = blockIdx.y;
    const typename L::Storage *row = logits + r * vocab;
    constexpr int LINE = LINE_BYTES / sizeof(typename L::Storage);
    const int shift = shift_of<L>(row), lines = (shift + vocab + LINE - 1) / LINE;
    const int each = (lines + splits - 1) / splits;
    const int from = min(part * each, lines) * LINE - shift, to = min((part + 1) * each, lines) * LINE - shift;
    const int begin = max(from, 0), end = min(to, vocab);
    clear(shared);
    Turn turn = {0, 0};
    Total total = {NO_MAXIMUM, 0.0f};
    Key low = 0;
    int held = 0;
    if (begin < end) {
        held = scan<L, false>(row, from, begin, end, k, NO_BOUND, slots, keys, shared, turn, total, low);
    } else {
        __syncthreads();
    }
    total = block_merge(total, shared);
    const long long entries = static_cast<long long>(splits) * k;
    for (bool parted = true;; parted = false) {
        held = sort(keys, held, k, low, highest(total.maximum), shared, turn);
        if (!parted) break;
        for (int i = threadIdx.x; i < k; i += blockDim.x) parts[r * entries + static_cast<long long>(part) * k + i] = i < held ? keys[i] : 0;
        if (threadIdx.x == 0) {
            const unsigned least = held == k ? static_cast<unsigned>(keys[k - 1] >> 32) : 0;
            totals[r * splits + part] = make_uint4(__float_as_uint(total.maximum), __float_as_uint(total.sum), least, 0);
        }
        // What the block has written comes before what it adds to the counter.
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            shared.is_last = atomicInc(&counters[r], splits - 1) == static_cast<unsigned>(splits) - 1;
            __threadfence();
        }
        __syncthreads();
        if (!shared.is_last) return;

        if (threadIdx.x < LANES) {
            total = {NO_MAXIMUM, 0.0f};
            unsigned least = 0;
#pragma unroll 1
            for (int i = lane; i < splits; i += LANES) {
                const uint4 one = __ldcg(&totals[r * splits + i]);
                total = merge(total, {__uint_as_float(one.x), __uint_as_float(one.y)});
                least = max(least, one.z);
            }
            total = warp_merge(total);
            least = __reduce_max_sync(ALL, least);
            if (lane == 0) {
                shared.maxima[0] = total.maximum;
                shared.sums[0] = total.sum;
                shared.least = least;
            }
        }
        const int room = most_held(k) + static_cast<int>(blockDim.x) * PIECE;
        held = 0;
        for (long long start = 0; start < entries;) {
            const int taken = static_cast<int>(min(entries - start, static_cast<long long>(room - held)));
            int *const added = &shared.added[turn.added];
            turn.added = after(turn.added);
            if (threadIdx.x == 0) shared.added[turn.added] = 0;
#pragma unroll 1
            for (int i = threadIdx.x; i < taken; i += blockDim.x) {
                const Key key = __ldcg(&parts[r * entries + start + i]);
                if (key != 0) keys[held + atomicAdd(added, 1)] = key;  // scattered
            }
            __syncthreads();
            held += *added;
            start += taken;
            if (start == taken) {
                total = {shared.maxima[0], shared.sums[0]};
                // k keys are not below the k-th of any part.
                low = static_cast<Key>(shared.least) << 32;
            }
            if (start < entries && held > most_held(k)) {
                cut(keys, held, k, low, highest(total.maximum), shared, turn);
            }
        }
    }
    put(keys, held, k, total, probs + r * k, indices + r * k);
}

#define SOFTMAX_TOPK(NAME, L)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, 2)                                                                         \
    softmax_topk_##NAME(const L::Storage *logits, float *probs, long long *indices, int vocab, int k) {                                  \
        topk<L>(logits, probs, indices, vocab, k);                                                                                       \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, 2)                                                                         \
    softmax_topk_split_##NAME(const L::Storage *logits, uint4 *totals, Key *parts, unsigned *counters, float *probs, long long *indices, \
                              int vocab, int k, int splits) {                                                                            \
        split<L>(logits, totals, parts, counters, probs, indices, vocab, k, splits);                                                     \
    }

SOFTMAX_TOPK(f32, F32)
SOFTMAX_TOPK(f16, F16)
SOFTMAX_TOPK(bf16, Bf16)
