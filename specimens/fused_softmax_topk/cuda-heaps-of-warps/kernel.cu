// A block for each row, which it reads once. The first lane of each warp keeps the warp's best entries in a heap, in shared memory unless
// k is large; the sorted heaps are then merged.

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
    int depth, held;

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

__device__ Entry warp_best(Entry mine) {
    for (int step = 16; step > 0; step /= 2) {
        const Entry other = {__shfl_xor_sync(ALL, mine.logit, step), __shfl_xor_sync(ALL, mine.index, step)};
        if (before(other, mine)) mine = other;
    }
    return mine;
}

__device__ void store(Entry winner, float max, float sum, float *prob, long long *index) {
    *prob = expf(winner.logit - max) / sum;
    *index = winner.index == nothing().index ? -1 : winner.index;
}

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, Entry *spilled, int vocab, int k) {
    extern __shared__ Entry shared[];
    __shared__ float maxima[WARPS], sums[WARPS];
    __shared__ int held[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t row = blockIdx.x;
    const float *x = logits + row * vocab;
    Entry *heaps = k > 2048 ? spilled + row * WARPS * k : shared;

    Heap heap = {heaps + warp * k, k, 0};
    Entry root = nothing();
    Softmax softmax;
    for (int start = warp * 32; start < vocab; start += THREADS) {
        Entry mine = nothing();
        if (start + lane < vocab) {
            mine = {x[start + lane], start + lane};
            softmax.add(mine.logit);
        }
        // Few entries come before the root, and those do one after the other.
        for (unsigned wanted = __ballot_sync(ALL, before(mine, root)); wanted != 0; wanted &= wanted - 1) {
            const int source = __ffs(wanted) - 1;
            const Entry entry = {__shfl_sync(ALL, mine.logit, source), start + source};
            if (lane == 0 && before(entry, root)) {
                heap.add(entry);
                root = heap.root();
            }
        }
        root = {__shfl_sync(ALL, root.logit, 0), __shfl_sync(ALL, root.index, 0)};
    }
    const float warp_top = warp_max(softmax.max);
    const float warp_total = warp_sum(softmax.sum_at(warp_top));
    if (lane == 0) {
        heap.sort();
        maxima[warp] = warp_top;
        sums[warp] = warp_total;
        held[warp] = heap.held;
    }
    __syncthreads();
    if (warp != 0) return;

    const float top = lane < WARPS ? maxima[lane] : -INFINITY, max = warp_max(top);
    const float total = lane < WARPS ? sums[lane] : 0;
    const float sum = warp_sum(top == max ? total : total * expf(top - max));
    for (int rank = 0, taken = 0; rank < k; rank++) {
        const bool is_head = lane < WARPS && taken < held[lane];
        const Entry mine = is_head ? heaps[lane * k + taken] : nothing(), winner = warp_best(mine);
        if (mine.index == winner.index) taken++;
        if (lane == 0) store(winner, max, sum, &probs[row * k + rank], &indices[row * k + rank]);
    }
}
