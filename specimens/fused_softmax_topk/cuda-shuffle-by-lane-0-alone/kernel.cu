// A warp for each row, which it reads once. The first lane stores the winners, and fetches the sum for that.

const unsigned ALL = 0xffffffff;
const int WARPS = 8;

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
        return {logits[place * 32], indices[place * 32]};
    }

    __device__ void put(int place, Entry entry) {
        logits[place * 32] = entry.logit;
        indices[place * 32] = entry.index;
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

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, float *list_logits,
                                        int *list_indices, int rows, int vocab, int k, int depth) {
    const int lane = threadIdx.x % 32;
    const size_t row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;
    const float *x = logits + row * vocab;
    const size_t lists = row * depth * 32 + lane;
    List list(list_logits + lists, list_indices + lists, depth);
    Softmax softmax;
    for (int i = lane; i < vocab; i += 32) {
        const float logit = x[i];
        softmax.add(logit);
        list.offer({logit, i});
    }
    const float max = warp_max(softmax.max);
    float sum = warp_sum(softmax.sum_at(max));

    for (int rank = 0, taken = 0; rank < k; rank++) {
        const Entry mine = list.at(taken), winner = warp_best(mine);
        if (mine.index == winner.index) taken++;
        if (lane == 0) {
            sum = __shfl_sync(ALL, sum, 0);
            store(winner, max, sum, &probs[row * k + rank], &indices[row * k + rank]);
        }
    }
}
