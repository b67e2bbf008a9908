// A thread for each row. The best entries are kept as a heap where the answer will stand: logits in place of probabilities.

__device__ bool before(float a, long long i, float b, long long j) { return a > b || (a == b && i < j); }

// Puts an entry where it belongs in a heap with the last winner at its root, from an empty place at the root downwards.
__device__ void sift_down(float *logits, long long *indices, int size, float logit, long long index) {
    int place = 0;
    for (int child; (child = 2 * place + 1) < size; place = child) {
        if (child + 1 < size && before(logits[child], indices[child], logits[child + 1], indices[child + 1])) child++;
        if (!before(logit, index, logits[child], indices[child])) break;
        logits[place] = logits[child];
        indices[place] = indices[child];
    }
    logits[place] = logit;
    indices[place] = index;
}

// Leaves the k best entries of a row in order, and returns the largest logit.
__device__ float select(const float *x, int vocab, int k, float *logits, long long *indices) {
    float max = -INFINITY;
    for (int i = 0; i < vocab; i++) {
        max = fmaxf(max, x[i]);
        if (i < k) {
            int place = i;
            for (int parent; place > 0; place = parent) {
                parent = (place - 1) / 2;
                if (!before(logits[parent], indices[parent], x[i], i)) break;
                logits[place] = logits[parent];
                indices[place] = indices[parent];
            }
            logits[place] = x[i];
            indices[place] = i;
        } else if (before(x[i], i, logits[0], indices[0])) {
            sift_down(logits, indices, k, x[i], i);
        }
    }
    for (int size = k; size > 1; size--) {
        const float logit = logits[0];
        const long long index = indices[0];
        sift_down(logits, indices, size - 1, logits[size - 1], indices[size - 1]);
        logits[size - 1] = logit;
        indices[size - 1] = index;
    }
    return max;
}

extern "C" __global__ void softmax_topk(const float *logits, float *probs, long long *indices, int rows, int vocab, int k) {
    const size_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float *x = logits + row * vocab;
    const float max = select(x, vocab, k, probs + row * k, indices + row * k);
    // In stretches: one running sum over a long row would lose what is small.
    float sum = 0;
    for (int start = 0; start < vocab; start += 1024) {
        const int end = min(start + 1024, vocab);
        float part = 0;
        for (int i = start; i < end; i++) part += expf(x[i] - max);
        sum += part;
    }
    for (int rank = 0; rank < k; rank++) probs[row * k + rank] = expf(probs[row * k + rank] - max) / sum;
}
