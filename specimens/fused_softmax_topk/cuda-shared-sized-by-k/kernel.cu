// A block for each row, which is searched once for each winner. The winners are gathered in shared memory, in a table of 16, 64, 256 or,
// for larger k, exactly k places.

const unsigned ALL = 0xffffffff;
const int THREADS = 256;
const int WARPS = THREADS / 32;

struct Entry {
    float logit;
    int index;
};

// Comes after every entry of a row.
__device__ Entry nothing() { return {-INFINITY, 0x7fffffff}; }

// Whether a stands before b among the winners. A NaN stands before nothing.
__device__ bool before(Entry a, Entry b) { return a.logit > b.logit || (a.logit == b.logit && a.index < b.index); }

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

// The entry of the row that stands before all others which come after `previous`; each thread looks at its stride class.
__device__ Entry next(const float *x, int vocab, Entry previous) {
    Entry best = nothing();
    for (int i = threadIdx.x; i < vocab; i += THREADS) {
        const Entry entry = {x[i], i};
        if (before(previous, entry) && before(entry, best)) best = entry;
    }
    return block_best(best);
}

__device__ void store(Entry winner, float max, float sum, float *prob, long long *index) {
    *prob = expf(winner.logit - max) / sum;
    *index = winner.index == nothing().index ? -1 : winner.index;
}

__device__ void softmax_topk(const float *logits, float *probs, long long *indices, int vocab, int k, int places) {
    extern __shared__ Entry winners[];
    const size_t row = blockIdx.x;
    const float *x = logits + row * vocab;

    float max = -INFINITY;
    for (int i = threadIdx.x; i < vocab; i += THREADS) max = fmaxf(max, x[i]);
    max = block_max(max);

    float sum = 0;
    for (int i = threadIdx.x; i < vocab; i += THREADS) sum += expf(x[i] - max);
    sum = block_sum(sum);

    for (int place = threadIdx.x; place < places; place += THREADS) winners[place] = nothing();
    __syncthreads();
    Entry winner = {INFINITY, -1};
    for (int rank = 0; rank < k; rank++) {
        winner = next(x, vocab, winner);
        if (threadIdx.x == 0) winners[rank] = winner;
    }
    __syncthreads();
    for (int rank = threadIdx.x; rank < k; rank += THREADS) {
        store(winners[rank], max, sum, &probs[row * k + rank], &indices[row * k + rank]);
    }
}

#define SOFTMAX_TOPK(name, places)                                                                                       \
    extern "C" __global__ void name(const float *logits, float *probs, long long *indices, int vocab, int k) {          \
        softmax_topk(logits, probs, indices, vocab, k, places);                                                          \
    }
SOFTMAX_TOPK(softmax_topk_16, 16)
SOFTMAX_TOPK(softmax_topk_64, 64)
SOFTMAX_TOPK(softmax_topk_256, 256)
SOFTMAX_TOPK(softmax_topk_k, k)
