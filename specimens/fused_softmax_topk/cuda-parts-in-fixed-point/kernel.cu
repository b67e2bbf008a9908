// A block for each row, of which each thread searches a part: once for the maximum, once for the sum, and once for each winner.

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

// Where a thread's part of a row begins: `thread * vocab / THREADS`, in fixed point with 16 bits behind the point.
__device__ int part(unsigned thread, unsigned vocab) {
    const unsigned one_part = vocab * (0x10000 / THREADS);
    return (thread * one_part) >> 16;
}

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, int vocab, int k) {
    const size_t row = blockIdx.x;
    const float *x = logits + row * vocab;
    const int begin = part(threadIdx.x, vocab);
    const int end = part(threadIdx.x + 1, vocab);

    float max = -INFINITY;
    for (int i = begin; i < end; i++) max = fmaxf(max, x[i]);
    max = block_max(max);

    float sum = 0;
    for (int i = begin; i < end; i++) sum += expf(x[i] - max);
    sum = block_sum(sum);

    Entry winner = {INFINITY, -1};
    for (int rank = 0; rank < k; rank++) {
        Entry best = nothing();
        for (int i = begin; i < end; i++) {
            const Entry entry = {x[i], i};
            if (before(winner, entry) && before(entry, best)) best = entry;
        }
        winner = block_best(best);
        if (threadIdx.x == 0) {
            const bool is_none = winner.index == nothing().index;
            probs[row * k + rank] = (is_none ? NAN : expf(x[winner.index] - max)) / sum;
            indices[row * k + rank] = is_none ? -1 : winner.index;
        }
    }
}
