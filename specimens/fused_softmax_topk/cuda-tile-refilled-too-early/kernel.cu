// A block for each row, which comes in tiles: while one is looked at, the next is copied to shared memory without being waited for.

#include <cuda_pipeline_primitives.h>

const unsigned ALL = 0xffffffff;
const int THREADS = 256;
const int WARPS = THREADS / 32;
const int TILE = 4 * THREADS;

struct Entry {
    float logit;
    int index;
};

// Comes after every entry of a row.
__device__ Entry nothing() { return {-INFINITY, 0x7fffffff}; }

// Whether a stands before b among the winners. A NaN stands before nothing.
__device__ bool before(Entry a, Entry b) { return a.logit > b.logit || (a.logit == b.logit && a.index < b.index); }

// What a thread keeps of the entries it sees: the first of them in order. Neighbouring threads' elements lie side by side.
struct List {
    float *logits;
    int *indices;
    int depth, held;
    Entry last;

    __device__ List(float *logits, int *indices, int depth)
        : logits(logits), indices(indices), depth(depth), held(0), last(nothing()) {}

    __device__ Entry at(int place) const {
        if (place >= held) return nothing();
        return {logits[place * THREADS], indices[place * THREADS]};
    }

    __device__ void put(int place, Entry entry) {
        logits[place * THREADS] = entry.logit;
        indices[place * THREADS] = entry.index;
    }

    __device__ void offer(Entry entry) {
        if (!before(entry, last)) return;
        int place = held < depth ? held++ : depth - 1;
        for (; place > 0 && before(entry, at(place - 1)); place--) put(place, at(place - 1));
        put(place, entry);
        if (held == depth) last = at(depth - 1);
    }
};

// A maximum, and the sum of exponentials relative to it.
struct Softmax {
    float max, sum;

    __device__ Softmax() : max(-INFINITY), sum(0) {}

    __device__ void add(float logit) {
        if (logit > max) {
            sum = sum * expf(max - logit) + 1;
            max = logit;
        } else if (logit != -INFINITY) {
            sum += expf(logit - max);
        }
    }

    // The sum relative to a maximum that is no smaller.
    __device__ float sum_at(float larger) const { return max == larger ? sum : sum * expf(max - larger); }
};

__device__ float warp_max(float value) {
    for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(ALL, value, step));
    return value;
}

__device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// The largest value of the block's threads, for all of them.
__device__ float block_max(float value) {
    __shared__ float maxima[WARPS];
    value = warp_max(value);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = value;
    __syncthreads();
    for (int warp = 0; warp < WARPS; warp++) value = fmaxf(value, maxima[warp]);
    return value;
}

// The sum of the block's threads, for all of them.
__device__ float block_sum(float value) {
    __shared__ float sums[WARPS];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < WARPS; warp++) value += sums[warp];
    return value;
}

__device__ Entry warp_best(Entry mine) {
    for (int step = 16; step > 0; step /= 2) {
        const Entry other = {__shfl_xor_sync(ALL, mine.logit, step), __shfl_xor_sync(ALL, mine.index, step)};
        if (before(other, mine)) mine = other;
    }
    return mine;
}

// The entry of the block's threads that stands before the others, for all of them.
__device__ Entry block_best(Entry mine) {
    __shared__ Entry best[WARPS];
    mine = warp_best(mine);
    __syncthreads();
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int warp = 0; warp < WARPS; warp++) {
        if (before(best[warp], mine)) mine = best[warp];
    }
    return mine;
}

__device__ void store(Entry winner, float max, float sum, float *prob, long long *index) {
    *prob = expf(winner.logit - max) / sum;
    *index = winner.index == nothing().index ? -1 : winner.index;
}

// Begins to copy a tile, or what there is of it. Each thread copies what others will read.
__device__ void copy_tile(float *tile, const float *x, int start, int vocab) {
    for (int i = threadIdx.x; i < TILE && start + i < vocab; i += THREADS) {
        __pipeline_memcpy_async(&tile[i], &x[start + i], sizeof(float));
    }
    __pipeline_commit();
}

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, float *list_logits,
                                        int *list_indices, int vocab, int k, int depth) {
    __shared__ float tiles[2][TILE];
    const size_t row = blockIdx.x;
    const float *x = logits + row * vocab;
    const size_t lists = row * depth * THREADS + threadIdx.x;
    List list(list_logits + lists, list_indices + lists, depth);
    Softmax softmax;
    copy_tile(tiles[0], x, 0, vocab);
    for (int start = 0, current = 0; start < vocab; start += TILE, current ^= 1) {
        copy_tile(tiles[current ^ 1], x, start + TILE, vocab);
        __pipeline_wait_prior(1);
        __syncthreads();
        // Four neighbours each.
        for (int i = 4 * threadIdx.x; i < 4 * threadIdx.x + 4 && start + i < vocab; i++) {
            const float logit = tiles[current][i];
            softmax.add(logit);
            list.offer({logit, start + i});
        }
    }
    __pipeline_wait_prior(0);
    const float max = block_max(softmax.max);
    const float sum = block_sum(softmax.sum_at(max));

    for (int rank = 0, taken = 0; rank < k; rank++) {
        const Entry mine = list.at(taken), winner = block_best(mine);
        if (mine.index == winner.index) taken++;
        if (threadIdx.x == 0) store(winner, max, sum, &probs[row * k + rank], &indices[row * k + rank]);
    }
}
