// A block for each row. The first lane of each warp puts what its warp finds into one heap of the block, in shared memory unless k is
// large.

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

// The best entries seen, as a heap with the last of them at its root.
struct Heap {
    Entry *entries;
    int depth;
    int held;

    __device__ Entry root() const { return held < depth ? nothing() : entries[0]; }

    // Puts an entry where it belongs, from an empty place at the root downwards.
    __device__ void sift_down(int size, Entry entry) {
        int place = 0;
        for (int child; (child = 2 * place + 1) < size; place = child) {
            if (child + 1 < size && before(entries[child], entries[child + 1])) child++;
            if (!before(entry, entries[child])) break;
            entries[place] = entries[child];
        }
        entries[place] = entry;
    }

    // An entry that comes before the root.
    __device__ void add(Entry entry) {
        if (held == depth) return sift_down(held, entry);
        int place = held++;
        for (int parent; place > 0 && before(entries[parent = (place - 1) / 2], entry); place = parent) {
            entries[place] = entries[parent];
        }
        entries[place] = entry;
    }

    // Puts the entries in order.
    __device__ void sort() {
        for (int size = held; size > 1; size--) {
            const Entry least = entries[0];
            sift_down(size - 1, entries[size - 1]);
            entries[size - 1] = least;
        }
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

__device__ void store(Entry winner, float max, float sum, float *prob, long long *index) {
    *prob = expf(winner.logit - max) / sum;
    *index = winner.index == nothing().index ? -1 : winner.index;
}

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, Entry *spilled, int vocab, int k) {
    extern __shared__ Entry shared[];
    __shared__ Heap heap;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t row = blockIdx.x;
    const float *x = logits + row * vocab;

    float max = -INFINITY;
    for (int i = threadIdx.x; i < vocab; i += THREADS) max = fmaxf(max, x[i]);
    max = block_max(max);

    float sum = 0;
    for (int i = threadIdx.x; i < vocab; i += THREADS) sum += expf(x[i] - max);
    sum = block_sum(sum);

    if (threadIdx.x == 0) heap = {k > 2048 ? spilled + row * k : shared, k, 0};
    __syncthreads();
    for (int start = warp * 32; start < vocab; start += THREADS) {
        const Entry mine = start + lane < vocab ? Entry{x[start + lane], start + lane} : nothing();
        for (unsigned left = __ballot_sync(ALL, before(mine, nothing())); left != 0; left &= left - 1) {
            const int source = __ffs(left) - 1;
            const Entry entry = {__shfl_sync(ALL, mine.logit, source), start + source};
            if (lane == 0 && before(entry, heap.root())) heap.add(entry);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) heap.sort();
    __syncthreads();
    for (int rank = threadIdx.x; rank < k; rank += THREADS) {
        const Entry winner = rank < heap.held ? heap.entries[rank] : nothing();
        store(winner, max, sum, &probs[row * k + rank], &indices[row * k + rank]);
    }
}
