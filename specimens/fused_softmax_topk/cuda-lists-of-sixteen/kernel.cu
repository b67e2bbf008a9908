// A block for each row, three passes. Each thread keeps the 16 best of its stride class; the winners are taken from the heads of all lists.

const unsigned ALL = 0xffffffff;
const int THREADS = 256;
const int WARPS = THREADS / 32;
const int KEPT = 16;

struct Entry {
    float logit;
    int index;
};

// Comes after every entry of a row.
__device__ Entry nothing() { return {-INFINITY, 0x7fffffff}; }

// Whether a stands before b among the winners. A NaN stands before nothing.
__device__ bool before(Entry a, Entry b) { return a.logit > b.logit || (a.logit == b.logit && a.index < b.index); }

// What a thread keeps of the entries it sees: the first of them in order.
struct List {
    Entry entries[KEPT], last;
    int held;

    __device__ List() : last(nothing()), held(0) {}

    __device__ Entry at(int place) const { return place < held ? entries[place] : nothing(); }

    __device__ void offer(Entry entry) {
        if (!before(entry, last)) return;
        int place = held < KEPT ? held++ : KEPT - 1;
        for (; place > 0 && before(entry, entries[place - 1]); place--) entries[place] = entries[place - 1];
        entries[place] = entry;
        if (held == KEPT) last = entries[KEPT - 1];
    }
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

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, int vocab, int k) {
    const size_t row = blockIdx.x;
    const float *x = logits + row * vocab;

    float max = -INFINITY;
    for (int i = threadIdx.x; i < vocab; i += THREADS) max = fmaxf(max, x[i]);
    max = block_max(max);

    float sum = 0;
    for (int i = threadIdx.x; i < vocab; i += THREADS) sum += expf(x[i] - max);
    sum = block_sum(sum);

    List list;
    for (int i = threadIdx.x; i < vocab; i += THREADS) list.offer({x[i], i});

    for (int rank = 0, taken = 0; rank < k; rank++) {
        const Entry mine = list.at(taken), winner = block_best(mine);
        if (mine.index == winner.index) taken++;
        if (threadIdx.x == 0) store(winner, max, sum, &probs[row * k + rank], &indices[row * k + rank]);
    }
}
