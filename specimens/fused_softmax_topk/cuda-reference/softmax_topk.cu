// Softmax over each row of logits, and its k largest probabilities, without storing the probabilities of a row.
//
//   probs[r, i] = exp(logits[r, j] - lse[r]),   j = indices[r, i],   lse[r] = log(sum_j exp(logits[r, j]))
//
// for the k largest of the row, in falling order; among equals the smaller index comes first.
//
// Buffers: logits [rows, vocab], row-major, contiguous, f32, or f16 or bf16 as 16 bits; aligned to its elements. probs [rows, k] f32.
// indices [rows, k] int64. For split rows, scratch: totals [rows, splits] of 16 bytes, parts [rows, splits, k + 96] of 64 bits, and counters
// [rows] of 64 bits, which are zero before a launch, and after it. rows up to 2^31 - 1, vocab from 1 to 2^30. Offsets of rows are of 64 bits.
//
// Entries with no answer: a row with a NaN or a logit of +inf, or of nothing but -inf, has NaN as its probabilities, and indices of the row. A
// logit of -inf is named, with probability 0, where fewer than k others exist. Beyond vocab the probability is 0 and the index -1.
//
// Launches, for T = f32, f16, bf16; block: 64 to 512, a multiple of 32; dynamic shared bytes: 160 * block + 8 * (4 * min(k, 256) + 64):
//   softmax_topk_T          any k        grid: 1 to rows        a read for each 256 of k; a block goes through rows
//   softmax_topk_split_T    k to 256     grid: (splits, rows)   for few rows
//   softmax_topk_plain_f32  any k        grid: rows             no shared bytes; k + 2 reads of the logits
// As many blocks as are on the multiprocessors at a time, or one for each row if that is fewer. 512 threads; 256 where k is at most 64 and
// rows are more than two for each multiprocessor. Static shared memory: 6 KiB. Bank conflicts: where keys go to their places, and
// candidates to those of theirs. Compute capability 8.0 or higher.
//
// Method. A block reads a row once, in tiles of two vectors of 16 bytes a thread, counted from the line of 128 bytes in which the row
// begins. Four tiles are on their way (cp.async), to where the thread that copies will read them, so that no barrier is needed for it;
// those of the next row follow at once. A line of memory goes to a line of shared memory, or sectors would be asked for twice. What is not
// wholly of the row goes element by element. Each thread keeps the sum of its exponentials, less the maximum of the first tiles and of what
// it saw above that. Candidates are vectors with a logit that reaches a threshold. The first threshold is below k of the largest logits of
// the threads in the first three tiles, or four of a later row; as these are so many logits, no winner is below, and little else is above.
// A thread puts its candidates aside in shared memory and goes on: nothing but that and the sum is done with a tile, and no thread waits
// for another. Now and then, at latest at the end, they are collected: their logits become keys of 64 bits, the logit above and the
// inverted index below, so that no two are equal and the k largest are the same in whatever order they came. When more than 4 k + 64 are
// held, some k are kept, and the least of them is the new threshold. As later indices lose ties, a row of equal logits has no candidates
// but the first. Of vectors that found no room each thread has a bit, and reads them again: that happens in rows whose logits rise or are
// equal, and where k is above half of the block. All lanes' candidates are in one list: no winner is lost, wherever the winners lie. At the
// end the list is sorted by the bins of a histogram between the threshold and the maximum; bins with the winners have few keys, and are
// ordered within. What a block reads next is on its way meanwhile. Logits of -inf are candidates only where others do not suffice: then
// they are looked for from the beginning.
//
// Sums are f32: 2 or 4 terms of a tile in each of four chains, tiles of a thread, lanes and warps, so chains have 6 + vocab / (8 block) +
// 10 terms at most. Their exponentials are ex2.approx of an argument that is rounded once, or twice where the maximum is beyond 65536; those
// of the winners are expf's. Results do not depend on the order of blocks, warps or atomics.
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
constexpr int VECTORS = 2;
// Tiles on their way.
constexpr int STAGES = 4;
// The first threshold is of so many, where the others are on their way while it is found. Of a later row all are there.
constexpr int SAMPLE = 3;
// Tiles between two collections of candidates: each of a thread's vectors has a bit.
constexpr int MOST_TILES = 32 / VECTORS;
// Logits of a thread for which there must be room in the list of candidates.
constexpr int PIECE = 4;
constexpr int MAX_K = 256;
// More candidates than this are cut down to about k: enough for a cut to be rare, few enough for the threshold to follow.
__host__ __device__ constexpr int most_held(int k) { return 4 * k + 64; }
// What a cut may keep beyond k.
constexpr int SLACK = 64;
// What a part of a row may give beyond k.
constexpr int PART_SLACK = 96;
constexpr int BIN_ROWS = 8, BINS = BIN_ROWS * LANES, LOG_BINS = 8;
// What is no logit: the maximum of none, and below every finite one that is a candidate. Differences with it are not NaN, as they would
// be with -inf.
constexpr float NO_MAXIMUM = -3.402823466e38f;

constexpr float LOG2_E = 1.44269504f;
// Maxima above that of any f16, whose product with LOG2_E is rounded by less than 2^-7.
constexpr float NEAR = 65536.0f;

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
    // Whether the finite logits are all below NEAR.
    static constexpr bool IS_NEAR = false;
    // As many of -inf as are 32 bits.
    static constexpr unsigned NONE = 0xff800000u;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float widen(Storage x) { return x; }
    static __device__ __forceinline__ void widen_word(float *to, unsigned word) { to[0] = __uint_as_float(word); }
    // Of two words the larger logits; of a NaN and a number the number.
    static __device__ __forceinline__ unsigned larger(unsigned a, unsigned b) {
        return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b)));
    }
    static __device__ __forceinline__ float largest(unsigned word) { return __uint_as_float(word); }
    // A word of the largest logits that are not above x.
    static __device__ __forceinline__ unsigned down(float x) { return __float_as_uint(x); }
    // Whether a word has a logit above the other's, all of whose logits are the same.
    static __device__ __forceinline__ bool is_above(unsigned word, unsigned other) { return __uint_as_float(word) > __uint_as_float(other); }
};

// Two logits of 16 bits in a word, in a format L.
template <typename L> struct Pairs {
    typedef unsigned short Storage;
    static constexpr int LEN = VECTOR_BYTES / sizeof(Storage);
    static __device__ __forceinline__ float largest(unsigned word) {
        float both[2];
        L::widen_word(both, word);
        return fmaxf(both[0], both[1]);
    }
    static __device__ __forceinline__ bool is_above(unsigned word, unsigned other) { return L::larger(word, other) != other; }
};

struct F16 : Pairs<F16> {
    static constexpr bool IS_NEAR = true;
    static constexpr unsigned NONE = 0xfc00fc00u;
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
    static __device__ __forceinline__ unsigned down(float x) { return __half_as_ushort(__float2half_rd(x)) * 0x10001u; }
};

struct Bf16 : Pairs<Bf16> {
    static constexpr bool IS_NEAR = false;
    static constexpr unsigned NONE = 0xff80ff80u;
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
    static __device__ __forceinline__ unsigned down(float x) {
        const unsigned bits = __float_as_uint(x);
        return ((bits + (x < 0.0f ? 0xffffu : 0u)) >> 16) * 0x10001u;
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

template <typename L> __device__ __forceinline__ unsigned larger(uint4 v) { return L::larger(L::larger(v.x, v.y), L::larger(v.z, v.w)); }

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

// A vector that is not wholly of the row. Most are beyond it altogether.
template <typename L> __device__ __forceinline__ uint4 load_part(const typename L::Storage *row, int at, int begin, int end) {
    constexpr int WORD = L::LEN / 4;
    uint4 to = make_uint4(L::NONE, L::NONE, L::NONE, L::NONE);
    if (at + L::LEN > begin && at < end) {
        to.x = load_word<L>(row, at, begin, end);
        to.y = load_word<L>(row, at + WORD, begin, end);
        to.z = load_word<L>(row, at + 2 * WORD, begin, end);
        to.w = load_word<L>(row, at + 3 * WORD, begin, end);
    }
    return to;
}

template <typename L> __device__ __forceinline__ uint4 load_vector(const typename L::Storage *row, int at, int begin, int end) {
    if (at >= begin && at + L::LEN <= end) return *reinterpret_cast<const uint4 *>(row + at);
    return load_part<L>(row, at, begin, end);
}

__device__ __forceinline__ void copy_vector(uint4 *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

// Begins to copy a thread's vectors of a tile, which need not be wholly of the row, to where it will read them, `blockDim.x` apart: logits
// first + v * stride .. + LEN of a row, where `first` is at a multiple of 16 bytes; -inf but from `begin` to `end`.
template <typename L>
__device__ __forceinline__ void fetch_parts(uint4 *to, const typename L::Storage *row, int first, int stride, int begin, int end) {
#pragma unroll 1
    for (int v = 0; v < VECTORS; ++v) {
        const int at = first + v * stride;
        if (at >= begin && at + L::LEN <= end) {
            copy_vector(to + v * blockDim.x, row + at);
        } else {
            to[v * blockDim.x] = load_part<L>(row, at, begin, end);
        }
    }
}

// Of the device, as __threadfence, but not in one order with all others.
__device__ __forceinline__ void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

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

// A word above which are the logits of an order from `order` on. What is beyond infinity no logit reaches.
template <typename L> __device__ __forceinline__ unsigned below(unsigned order) {
    // Below 0 is -0, which is as large.
    return L::down(order_logit(order - (order == 0x80000000u ? 2 : 1)));
}

// Makes logits whose keys are not below `limit` such as are no candidates.
template <typename L> __device__ __forceinline__ void hide(uint4 &x, int at, Key limit) {
    constexpr int WORD = L::LEN / 4;
    unsigned *words[4] = {&x.x, &x.y, &x.z, &x.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        float wide[WORD];
        L::widen_word(wide, *words[w]);
        const int first = at + w * WORD;
        if constexpr (WORD == 1) {
            if (make_key(wide[0], first) >= limit) *words[w] = L::NONE;
        } else {
            if (make_key(wide[0], first) >= limit) *words[w] = (*words[w] & 0xffff0000u) | (L::NONE & 0xffffu);
            if (make_key(wide[1], first + 1) >= limit) *words[w] = (*words[w] & 0xffffu) | (L::NONE & 0xffff0000u);
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

__device__ __forceinline__ float exp2_of(float x) {
    float to;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(to) : "f"(x));
    return to;
}

// exp(x), as exact as the instruction.
__device__ __forceinline__ float fast_exp(float x) { return exp2_of(x * LOG2_E); }

// What exponentials less a maximum are taken by: exp(x - maximum) = exp2(x * LOG2_E - scaled) * rest. One operation for each argument; what
// the product of the maximum is rounded by is the same for all.
struct Scale {
    float scaled, rest;
};

template <typename L> __device__ __forceinline__ Scale scale_of(float maximum) {
    // Where there is no maximum, all are -inf.
    const float least = L::IS_NEAR ? fmaxf(maximum, -NEAR) : maximum, scaled = __fmul_rn(least, LOG2_E);
    return {scaled, exp2_of(-__fmaf_rn(least, LOG2_E, -scaled))};
}

// Logits that are not above the total's maximum, or are NaN, added to it.
template <typename L> __device__ __forceinline__ void add(Total &total, Scale scale, const uint4 (&x)[VECTORS]) {
    const auto terms = [&](auto term) {
        float sums[4];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            float wide[L::LEN];
            widen<L>(wide, x[v]);
#pragma unroll
            for (int e = 0; e < L::LEN; ++e) sums[e % 4] = v == 0 && e < 4 ? term(wide[e]) : sums[e % 4] + term(wide[e]);
        }
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    };
    if (L::IS_NEAR || fabsf(total.maximum) < NEAR) {
        total.sum = __fmaf_rn(terms([&](float x) { return exp2_of(__fmaf_rn(x, LOG2_E, -scale.scaled)); }), scale.rest, total.sum);
    } else {
        total.sum += terms([&](float x) { return fast_exp(x - total.maximum); });
    }
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
    int stashed;
    int kept;
    int is_last;
    int place;
    int given;
    unsigned least;
    float maxima[MAX_WARPS];
    float sums[MAX_WARPS];
    unsigned lowest[MAX_WARPS];
    unsigned highest[MAX_WARPS];
    // What is not there at the same time.
    union {
        Key sorted[MAX_K + SLACK];
        int counts[2][MAX_WARPS];
        Key bests[MAX_WARPS];
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
    if (threadIdx.x == 0) shared.stashed = 0;
}

__device__ __forceinline__ int warp_sum(int value) { return __reduce_add_sync(ALL, value); }

// Appends the keys of a vector's logits that are not below that of `least`. For all of them there is room.
template <typename L> __device__ __forceinline__ void append(uint4 x, int at, Key least, Key *keys, int *added) {
    constexpr int WORD = L::LEN / 4;
    const float bound = key_logit(least);
    float wide[L::LEN];
    widen<L>(wide, x);
    unsigned hits = 0;
#pragma unroll
    for (int e = 0; e < L::LEN; ++e) hits |= wide[e] >= bound ? 1u << e : 0;
    if (hits == 0) return;
    int place = atomicAdd(added, __popc(hits));
    // Mostly it is one.
#pragma unroll 1
    do {
        const int e = __ffs(static_cast<int>(hits)) - 1, w = e / WORD;
        hits &= hits - 1;
        L::widen_word(wide, w < 2 ? (w == 0 ? x.x : x.y) : (w == 2 ? x.z : x.w));
        keys[place++] = make_key(e % WORD == 0 ? wide[0] : wide[1], at + e);  // scattered
    } while (hits != 0);
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

// The bins to count in from here to the next `find_bin`.
__device__ __forceinline__ int *turn_bins(Shared &shared, Turn &turn) {
    int *const bins = shared.bins[turn.bins];
    turn.bins ^= 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) shared.bins[turn.bins][i] = 0;
    return bins;
}

// Where the k-th largest of what was counted is, and in `starts` how many are in higher bins. Two barriers.
__device__ __forceinline__ Bin find_bin(const int *bins, int k, Shared &shared) {
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
        const int reached = sum_from(mine);
        int over = reached - mine;
        Bin bin = {0, 0, 0};
#pragma unroll
        for (int n = BIN_ROWS - 1; n >= 0; --n) {
            shared.starts[n * LANES + lane] = over;
            if (over < k) bin = {lane * BIN_ROWS + n, over, over + counts[n]};
            over += counts[n];
        }
        // If there are not k, the lowest.
        if (reached - mine < k && (reached >= k || lane == 0)) shared.bin = bin;
    }
    __syncthreads();
    return shared.bin;
}

// The order of a threshold which at least k logits reach, and few others if that can be had, by the largest logit of each thread; that becomes
// the largest of all.
__device__ __forceinline__ unsigned find_threshold(float &largest, int k, Shared &shared, Turn &turn) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const unsigned order = make_order(largest);
    unsigned low = __reduce_min_sync(ALL, order), high = __reduce_max_sync(ALL, order);
    if (lane == 0) {
        shared.lowest[warp] = low;
        shared.highest[warp] = high;
    }
    __syncthreads();
    const bool has = lane < static_cast<int>(blockDim.x) / LANES;
    low = max(__reduce_min_sync(ALL, has ? shared.lowest[lane] : ALL), make_order(NO_MAXIMUM));
    high = __reduce_max_sync(ALL, has ? shared.highest[lane] : 0);
    largest = fmaxf(order_logit(high), NO_MAXIMUM);
    int over = 0;
    while (low <= high) {
        const int bits = LANES - __clz(static_cast<int>(high - low)), shift = bits > LOG_BINS ? bits - LOG_BINS : 0;
        int *const bins = turn_bins(shared, turn);
        if (order >= low && order <= high) atomicAdd(&bins[place_of(static_cast<int>((order - low) >> shift))], 1);  // scattered
        const Bin bin = find_bin(bins, k - over, shared);
        if (over + bin.reached < k) break;
        low += static_cast<unsigned>(bin.bin) << shift;
        if (over + bin.reached <= k + k / 4 + 4 || shift == 0) return low;
        over += bin.over;
        // What is beyond the last bin may be beyond what a number holds.
        high = low + min(high - low, (1u << shift) - 1);
    }
    return make_order(NO_MAXIMUM);
}

// Counts keys from `low` to `high` by bins. All threads must see the keys. Two barriers.
__device__ __forceinline__ Bin count_bins(const Key *keys, int held, int k, Key low, Key high, int shift, Shared &shared, Turn &turn) {
    int *const bins = turn_bins(shared, turn);
#pragma unroll 1
    for (int i = threadIdx.x; i < held; i += blockDim.x) {
        const Key key = keys[i];
        if (key >= low && key <= high) atomicAdd(&bins[place_of(bin_of(key, low, shift))], 1);  // scattered
    }
    return find_bin(bins, k, shared);
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
        high = low + min(high - low, (static_cast<Key>(1) << shift) - 1);
    } while (count > k + SLACK);
    return {low, count};
}

// Keeps about k, and at least k, of the largest of `held` > k keys, in front, and returns what all of them reach; of those at least k are from
// `low` to `high`, and none above. All must be visible to all threads; before the next barrier they are not.
__device__ __forceinline__ Key cut(Key *keys, int &held, int k, Key low, Key high, Shared &shared, Turn &turn) {
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
    return range.low;
}

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
__device__ __forceinline__ int fill(const typename L::Storage *row, int begin, int end, int wanted, Key limit, Key *keys, int held, Shared &shared) {
    const int lane = threadIdx.x % LANES;
    int half = 0;
#pragma unroll 1
    for (int start = begin; start < end && held < wanted; start += blockDim.x, half ^= 1) {
        const int i = start + static_cast<int>(threadIdx.x);
        const float x = i < end ? L::widen(row[i]) : 0.0f;
        const Key key = make_key(x, i);
        const bool has = !(x >= NO_MAXIMUM) && key < limit;
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

// Tiles after which candidates are collected, when the threshold is of so many: as many as should fill about half of the room for them.
__device__ __forceinline__ int collect_after(int tiles, int k) {
    const float wanted = __fdividef(static_cast<float>(tiles * static_cast<int>(blockDim.x)), static_cast<float>(2 * k + 1));
    return max(1, min(MOST_TILES, static_cast<int>(wanted)));
}

// A warp's total, for the block.
__device__ __forceinline__ void share(Total total, Shared &shared) {
    if (threadIdx.x % LANES == 0) {
        shared.maxima[threadIdx.x / LANES] = total.maximum;
        shared.sums[threadIdx.x / LANES] = total.sum;
    }
}

// The totals that all warps have shared, the same in each thread.
__device__ __forceinline__ Total block_total(const Shared &shared) {
    const int lane = threadIdx.x % LANES;
    const bool has = lane < static_cast<int>(blockDim.x) / LANES;
    return warp_merge({has ? shared.maxima[lane] : NO_MAXIMUM, has ? shared.sums[lane] : 0.0f});
}

// Logits of a row's first line that are before it.
template <typename L> __device__ __forceinline__ int shift_of(const typename L::Storage *row) {
    return static_cast<int>(reinterpret_cast<size_t>(row) / sizeof(typename L::Storage) % (LINE_BYTES / sizeof(typename L::Storage)));
}

// The tiles that a block reads, of one row after the other, STAGES ahead of what it works on; the same in each thread. A thread's slots are its
// own: it needs no barrier, but must have read what it copied before. Rows have logits `begin` .. `end`, are `apart` from each other, and each is
// read `passes` times; `left` so many times after this.
template <typename L> struct Stream {
    uint4 *slots;
    const typename L::Storage *row;
    long long apart;
    // Tiles are wholly of the row that begin less than `whole` logits after its begin.
    int tile, whole, begin, end, passes, pass, left;
    // Of the slots, this thread's first of the tile that is worked on next.
    int here;

    __device__ __forceinline__ Stream(uint4 *slots, const typename L::Storage *row, int from, int begin, int end)
        : slots(slots), row(row), apart(0), tile(from), whole(max(end - begin - vectors() * L::LEN + 1, 0)), begin(begin), end(end), passes(1),
          pass(1), left(0), here(threadIdx.x) {}

    // Of a tile.
    static __device__ __forceinline__ int vectors() { return VECTORS * static_cast<int>(blockDim.x); }

    __device__ __forceinline__ void start() {
#pragma unroll 1
        for (int s = 0; s < STAGES; ++s) next();
    }

    // From a thread's slot of a tile to that of the next tile.
    __device__ __forceinline__ int after(int slot) const {
        slot += vectors();
        return slot >= STAGES * vectors() ? static_cast<int>(threadIdx.x) : slot;
    }

    // The thread has read its vectors of the tile that is worked on: where they were comes another.
    __device__ __forceinline__ void next() {
        fetch(slots + here);
        here = after(here);
    }

    // Begins to copy a tile.
    __device__ __forceinline__ void fetch(uint4 *to) {
        if (tile < end) {
            const int stride = static_cast<int>(blockDim.x) * L::LEN, first = tile + static_cast<int>(threadIdx.x) * L::LEN;
            if (static_cast<unsigned>(tile - begin) < static_cast<unsigned>(whole)) {
                // Bytes of a row are at most 2^32.
                const unsigned offset = static_cast<unsigned>(first) * static_cast<unsigned>(sizeof(typename L::Storage));
#pragma unroll
                for (int v = 0; v < VECTORS; ++v) {
                    copy_vector(to + v * blockDim.x, reinterpret_cast<const char *>(row) + (offset + v * blockDim.x * VECTOR_BYTES));
                }
            } else {
                fetch_parts<L>(to, row, first, stride, begin, end);
            }
            tile += stride * VECTORS;
            // At most once: as a loop it is out of the way of most tiles.
#pragma unroll 1
            while (tile >= end && left > 0) {
                --left;
                if (--pass == 0) {
                    pass = passes;
                    row += apart;
                }
                tile = -shift_of<L>(row);
            }
        }
        end_group();
    }
};

// Puts those of a thread's vectors, `stride` logits apart from `at` on, that are `hits` with what all threads have put aside. Of what finds no
// room, bits from `bit` on are set in `missed`.
__device__ __forceinline__ void put_aside(const uint4 (&x)[VECTORS], const bool (&hits)[VECTORS], int at, int stride, uint4 *stash, int *places,
                                          Shared &shared, unsigned &missed, int bit) {
    const int room = blockDim.x;
    int count = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) count += hits[v];
    int place = atomicAdd(&shared.stashed, count);
    const auto put_one = [&](int v) {
        stash[place] = x[v];               // scattered
        places[place] = at + v * stride;   // scattered
    };
    if (place + count <= room) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            if (hits[v]) put_one(v);
            place += hits[v];
        }
        return;
    }
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        if (!hits[v]) continue;
        if (place < room) {
            put_one(v);
        } else {
            missed |= 1u << (bit + v);
        }
        ++place;
    }
}

// Reads the logits of a row once, as they come from the stream, in vectors counted from `from`. Leaves the k largest keys (MORE: of
// those below `limit`), or all if there are fewer, and perhaps others, up to `most` where k are, in `keys`, in any order, and returns how many;
// each warp's total is shared, unless MORE. None of those largest is below `low`.
template <typename L, bool MORE>
__device__ __forceinline__ int scan(Stream<L> &stream, const typename L::Storage *row, int from, int sample, int k, int most, Key limit, Key *keys,
                                    Shared &shared, Turn &turn, Total &total, Key &low) {
    constexpr int LEN = L::LEN;
    constexpr int PIECES = LEN / PIECE;
    const int threads = blockDim.x, stride = threads * LEN, step = stride * VECTORS, mine = from + static_cast<int>(threadIdx.x) * LEN;
    const int begin = stream.begin, end = stream.end, tiles = (end - from + step - 1) / step;
    // Where keys are appended from there are vectors until then, and where they are from.
    uint4 *const stash = reinterpret_cast<uint4 *>(keys + most_held(k));
    int *const places = reinterpret_cast<int *>(stash + threads);
    // Threads read what they copied themselves: no barrier is needed.
    wait_groups<STAGES - SAMPLE>();
    if (sample > SAMPLE) wait_groups<0>();
    unsigned sampled_most = L::NONE;
    int slot = stream.here;
#pragma unroll 1
    for (int s = 0; s < sample && s < tiles; ++s) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            uint4 x = stream.slots[slot + v * threads];
            if (MORE) hide<L>(x, mine + s * step + v * stride, limit);
            sampled_most = L::larger(sampled_most, larger<L>(x));
        }
        slot = stream.after(slot);
    }
    float largest = L::largest(sampled_most);
    unsigned threshold = find_threshold(largest, k, shared, turn);
    Key least = static_cast<Key>(threshold) << 32;
    // The block's, and not the thread's: at first what is above it reaches the threshold, too.
    if (!MORE) total.maximum = largest;
    unsigned maximum = L::down(largest);
    Scale scale = scale_of<L>(largest);
    // Tiles that the threshold is of.
    int held = 0, sampled = sample;
#pragma unroll 1
    for (int tile = 0; tile < tiles;) {
        const int start = tile, count = collect_after(sampled, k), left_over = tiles - tile;
        // What is little more than that is taken with it.
        const int stop = left_over <= min(count + count / 2, MOST_TILES) ? tiles : tile + count;
        // What is above a thread's maximum is looked at in any case: exponentials are of what is not. A later threshold may be far above.
        const unsigned under = below<L>(MORE ? threshold : min(threshold, make_order(total.maximum) + 1));
        // Of vectors from here on, those for which there was no room.
        unsigned missed = 0;
#pragma unroll 1
        for (; tile < stop; ++tile) {
            uint4 x[VECTORS];
            const uint4 *const slot = stream.slots + stream.here;
            wait_groups<STAGES - 1>();
            unsigned most[VECTORS], all;
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                x[v] = slot[v * threads];
                if (MORE) hide<L>(x[v], mine + tile * step + v * stride, limit);
                most[v] = larger<L>(x[v]);
                all = v == 0 ? most[0] : L::larger(all, most[v]);
            }
            stream.next();
            if (L::is_above(all, under)) {
                bool hits[VECTORS];
#pragma unroll
                for (int v = 0; v < VECTORS; ++v) hits[v] = L::is_above(most[v], under);
                put_aside(x, hits, mine + tile * step, stride, stash, places, shared, missed, (tile - start) * VECTORS);
                if (!MORE && L::is_above(all, maximum)) {
                    largest = L::largest(all);
                    maximum = L::down(largest);
                    total.sum *= fast_exp(total.maximum - largest);
                    total.maximum = largest;
                    scale = scale_of<L>(largest);
                }
            }
            if (!MORE) add<L>(total, scale, x);
        }

        const bool last = tile == tiles;
        if (!MORE && last) share(warp_merge(total), shared);
        bool left = __syncthreads_or(missed != 0);
        const unsigned stashed = min(shared.stashed, threads);
        bool has = threadIdx.x < stashed;
        uint4 vector = has ? stash[threadIdx.x] : make_uint4(0, 0, 0, 0);
        int at = has ? places[threadIdx.x] : 0;
        __syncthreads();
        if (threadIdx.x == 0) shared.stashed = 0;
        // There is room for so many logits a thread as are in a piece.
        const unsigned each = threads / PIECES;
        int pieces = stashed <= each ? 1 : PIECES;
        while (true) {
#pragma unroll 1
            for (int piece = 0; piece < pieces; ++piece) {
                int *const added = &shared.added[turn.added];
                turn.added = after(turn.added);
                if (threadIdx.x == 0) shared.added[turn.added] = 0;
                if (has && threadIdx.x - piece * each < each) append<L>(vector, at, least, keys + held, added);
                __syncthreads();
                held += *added;
                if (held > (last && !left && piece == pieces - 1 ? most : most_held(k))) {
                    least = cut(keys, held, k, least, highest(-minus_infinity()), shared, turn);
                    // What comes after all of this must be above.
                    threshold = static_cast<unsigned>(least >> 32) + 1;
                    sampled = tile;
                }
            }
            if (!left) break;
            // What there was no room for is read again.
            pieces = PIECES;
            has = missed != 0;
            if (has) {
                const int n = __ffs(static_cast<int>(missed)) - 1;
                missed &= missed - 1;
                at = mine + (start + n / VECTORS) * step + n % VECTORS * stride;
                vector = load_vector<L>(row, at, begin, end);
                if (MORE) hide<L>(vector, at, limit);
            }
            left = __syncthreads_or(missed != 0);
        }
        __syncthreads();
    }
    low = least;
    if (held < k) {
        held = fill<L>(row, begin, end, k, limit, keys, held, shared);
        low = 0;
    }
    return held;
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

// -- Plain: a read for the maximum, one for the sum, and one for each of the k. --------------------------------------------------------

extern "C" __global__ void __launch_bounds__(MAX_THREADS)
softmax_topk_plain_f32(const float *logits, float *probs, long long *indices, int vocab, int k) {
    __shared__ Shared shared;
    const float *row = logits + static_cast<long long>(blockIdx.x) * vocab;
    const long long start = static_cast<long long>(blockIdx.x) * k;
    Total total = {NO_MAXIMUM, 0.0f};
    for (int j = threadIdx.x; j < vocab; j += blockDim.x) total.maximum = fmaxf(total.maximum, row[j]);
    for (int j = threadIdx.x; j < vocab; j += blockDim.x) total.sum += expf(row[j] - total.maximum);
    share(warp_merge(total), shared);
    __syncthreads();
    total = block_total(shared);
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

// One read of the logits for each 256 of k. The first gives the sum. A block goes through rows, and what it reads next is on its way while it
// sorts.
template <typename L>
__device__ __forceinline__ void topk(const typename L::Storage *__restrict__ logits, float *__restrict__ probs,
                                     long long *__restrict__ indices, int rows, int vocab, int k) {
    extern __shared__ __align__(LINE_BYTES) uint4 slots[];
    __shared__ Shared shared;
    Key *const keys = reinterpret_cast<Key *>(slots + STAGES * VECTORS * blockDim.x);
    clear(shared);
    Turn turn = {0, 0};
    const typename L::Storage *row = logits + blockIdx.x * static_cast<long long>(vocab);
    Stream<L> stream(slots, row, -shift_of<L>(row), 0, vocab);
    stream.apart = gridDim.x * static_cast<long long>(vocab);
    stream.passes = stream.pass = (k + MAX_K - 1) / MAX_K;
    if (static_cast<int>(blockIdx.x) < rows) {
        const int rounds = (rows - 1 - static_cast<int>(blockIdx.x)) / static_cast<int>(gridDim.x) + 1;
        stream.left = rounds * stream.passes - 1;
        stream.start();
    }
#pragma unroll 1
    for (long long r = blockIdx.x; r < rows; r += gridDim.x) {
        Total total = {NO_MAXIMUM, 0.0f};
        Key limit = NO_BOUND;
#pragma unroll 1
        for (int done = 0; done < k; done += MAX_K) {
            const int wanted = min(k - done, MAX_K), from = -shift_of<L>(row), sample = r == blockIdx.x && done == 0 ? SAMPLE : STAGES;
            Key low;
            int held;
            if (done == 0) {
                held = scan<L, false>(stream, row, from, sample, wanted, vocab, limit, keys, shared, turn, total, low);
                total = block_total(shared);
            } else {
                held = scan<L, true>(stream, row, from, sample, wanted, vocab, limit, keys, shared, turn, total, low);
            }
            held = sort(keys, held, wanted, low, highest(total.maximum), shared, turn);
            put(keys, held, wanted, total, probs + r * k + done, indices + r * k + done);
            // With nothing left, no key is below 0.
            limit = held == MAX_K ? keys[MAX_K - 1] : 0;
            __syncthreads();
        }
        row += stream.apart;
    }
}

// A part of a row: its total, and its candidates as they are, behind those of other parts. The block that is done last puts the parts of the
// row together, and leaves the row's counter at zero. `totals` has for each part the maximum, the sum, the order of a logit that k of its keys
// reach, and nothing; `counters` how many keys there are, and above them how many parts are done.
template <typename L>
__device__ __forceinline__ void split(const typename L::Storage *__restrict__ logits, uint4 *totals, Key *parts, Key *counters,
                                      float *__restrict__ probs, long long *__restrict__ indices, int vocab, int k, int splits) {
    extern __shared__ __align__(LINE_BYTES) uint4 slots[];
    __shared__ Shared shared;
    Key *const keys = reinterpret_cast<Key *>(slots + STAGES * VECTORS * blockDim.x);
    const int threads = blockDim.x, lane = threadIdx.x % LANES, part = blockIdx.x, room = most_held(k), most = k + PART_SLACK;
    const long long r = blockIdx.y;
    const typename L::Storage *row = logits + r * vocab;
    totals += r * splits;
    parts += r * splits * most;
    constexpr int LINE = LINE_BYTES / sizeof(typename L::Storage);
    const int shift = shift_of<L>(row), lines = (shift + vocab + LINE - 1) / LINE;
    const int each = (lines + splits - 1) / splits;
    const int from = min(part * each, lines) * LINE - shift, to = min((part + 1) * each, lines) * LINE - shift;
    const int begin = max(from, 0), end = min(to, vocab);
    Turn turn = {0, 0};
    Total total = {NO_MAXIMUM, 0.0f};
    Key low = 0;
    int held = 0;
    if (begin < end) {
        Stream<L> stream(slots, row, from, begin, end);
        stream.start();
        clear(shared);
        held = scan<L, false>(stream, row, from, SAMPLE, k, most, NO_BOUND, keys, shared, turn, total, low);
    } else {
        clear(shared);
        share(total, shared);
        __syncthreads();
    }
    if (threadIdx.x == 0) shared.place = static_cast<int>(atomicAdd(&counters[r], static_cast<Key>(held)));
    total = block_total(shared);
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < held; i += threads) parts[shared.place + i] = keys[i];
    if (threadIdx.x == 0) {
        totals[part] = make_uint4(__float_as_uint(total.maximum), __float_as_uint(total.sum), static_cast<unsigned>(low >> 32), 0);
    }
    // What the block has written comes before what it adds to the counter.
    __syncthreads();
    if (threadIdx.x == 0) {
        fence();
        const Key before = atomicAdd(&counters[r], static_cast<Key>(1) << 32);
        shared.is_last = static_cast<int>(before >> 32) == splits - 1;
        shared.given = static_cast<int>(before);
        if (shared.is_last) counters[r] = 0;
        fence();
    }
    __syncthreads();
    if (!shared.is_last) return;

    // As many keys as the list has room for. The first come while totals are merged.
    const int given = shared.given;
    Key some[PIECE];
    const auto load = [&](int start) {
#pragma unroll
        for (int p = 0; p < PIECE; ++p) {
            const int i = start + p * threads + static_cast<int>(threadIdx.x);
            some[p] = i < given ? __ldcg(&parts[i]) : 0;
        }
    };
    load(0);
    if (threadIdx.x < LANES) {
        total = {NO_MAXIMUM, 0.0f};
        unsigned least = 0;
#pragma unroll 1
        for (int i = lane; i < splits; i += LANES) {
            const uint4 one = __ldcg(&totals[i]);
            total = merge(total, {__uint_as_float(one.x), __uint_as_float(one.y)});
            least = max(least, one.z);
        }
        total = warp_merge(total);
        // k keys are not below the bound of any part.
        least = __reduce_max_sync(ALL, least);
        if (lane == 0) {
            shared.maxima[0] = total.maximum;
            shared.sums[0] = total.sum;
            shared.least = least;
        }
    }
    __syncthreads();
    total = {shared.maxima[0], shared.sums[0]};
    low = static_cast<Key>(shared.least) << 32;
    held = 0;
#pragma unroll 1
    for (int start = 0;;) {
        int *const added = &shared.added[turn.added];
        turn.added = after(turn.added);
        if (threadIdx.x == 0) shared.added[turn.added] = 0;
        int count = 0;
#pragma unroll
        for (int p = 0; p < PIECE; ++p) count += some[p] != 0 && some[p] >= low;
        int place = count > 0 ? held + atomicAdd(added, count) : 0;
#pragma unroll
        for (int p = 0; p < PIECE; ++p) {
            if (some[p] != 0 && some[p] >= low) keys[place++] = some[p];  // scattered
        }
        __syncthreads();
        held += *added;
        start += threads * PIECE;
        if (start >= given) break;
        if (held > room) {
            cut(keys, held, k, low, highest(total.maximum), shared, turn);
            __syncthreads();
        }
        load(start);
    }
    held = sort(keys, held, k, low, highest(total.maximum), shared, turn);
    put(keys, held, k, total, probs + r * k, indices + r * k);
}

#define SOFTMAX_TOPK(NAME, L)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, 2)                                                                         \
    softmax_topk_##NAME(const L::Storage *logits, float *probs, long long *indices, int rows, int vocab, int k) {            \
        topk<L>(logits, probs, indices, rows, vocab, k);                                                                         \
    }                                                                                                                                    \
    extern "C" __global__ void __launch_bounds__(MAX_THREADS, 2)                                                                         \
    softmax_topk_split_##NAME(const L::Storage *logits, uint4 *totals, Key *parts, Key *counters, float *probs, long long *indices,      \
                              int vocab, int k, int splits) {                                                                \
        split<L>(logits, totals, parts, counters, probs, indices, vocab, k, splits);                                             \
    }

SOFTMAX_TOPK(f32, F32)
SOFTMAX_TOPK(f16, F16)
SOFTMAX_TOPK(bf16, Bf16)
