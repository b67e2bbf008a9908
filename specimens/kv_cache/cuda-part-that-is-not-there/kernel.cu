// A cache of keys and values in two arrays: (layer, sequence, head, position, element). A query
// goes through its keys once. Of long contexts warps take parts of 256 keys, whose results are put together.

const unsigned ALL = 0xffffffff;

// Refuses tokens for which there is no room.
extern "C" __global__ void check(const long long *held, const long long *lengths, int *status, int batch, int layer, int max_len) {
    for (int b = threadIdx.x; b < batch; b += blockDim.x) {
        if (held[layer * batch + b] + lengths[b] > max_len) atomicExch(status, 1);
    }
}

// A block for each new token of a head.
extern "C" __global__ void store(float *keys, float *values, const long long *held, const float *k, const float *v,
                                 const long long *lengths, const int *status, int batch, int layer, int max_len, int head_dim) {
    const size_t token = blockIdx.x, head = blockIdx.y, b = blockIdx.z;
    if (*status != 0 || token >= lengths[b]) return;
    const size_t sequence = layer * batch + b;
    const size_t from = ((b * gridDim.y + head) * gridDim.x + token) * head_dim;
    const size_t to = ((sequence * gridDim.y + head) * max_len + held[sequence] + token) * head_dim;
    for (int i = threadIdx.x; i < head_dim; i += blockDim.x) {
        keys[to + i] = k[from + i];
        values[to + i] = v[from + i];
    }
}

// Counts the new tokens, when all are stored.
extern "C" __global__ void count(long long *held, const long long *lengths, const int *status, int batch, int layer) {
    if (*status != 0) return;
    for (int b = threadIdx.x; b < batch; b += blockDim.x) held[layer * batch + b] += lengths[b];
}

__device__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    return value;
}

// A warp for each query, whose lanes share the elements.
extern "C" __global__ void attend(const float *keys, const float *values, const long long *held, const float *q,
                                  const long long *lengths, float *out, int batch, int layer, int max_len, int kv_heads,
                                  int head_dim) {
    const size_t query = blockIdx.x, head = blockIdx.y, b = blockIdx.z, sequence = layer * batch + b;
    const size_t at = ((b * gridDim.y + head) * gridDim.x + query) * head_dim;
    const size_t cached = (sequence * kv_heads + head / (gridDim.y / kv_heads)) * max_len * head_dim;
    const long long seen = query < lengths[b] ? held[sequence] - lengths[b] + query + 1 : 0;
    for (int i = threadIdx.x; i < head_dim; i += 32) out[at + i] = 0;
    float max = -INFINITY, sum = 0;
    for (long long j = 0; j < seen; j++) {
        const size_t key = cached + j * head_dim;
        float part = 0;
        for (int i = threadIdx.x; i < head_dim; i += 32) part += q[at + i] * keys[key + i];
        const float score = warp_sum(part) / sqrtf(head_dim);
        const float larger = fmaxf(max, score), factor = expf(max - larger), weight = expf(score - larger);
        for (int i = threadIdx.x; i < head_dim; i += 32) out[at + i] = out[at + i] * factor + weight * values[key + i];
        sum = sum * factor + weight;
        max = larger;
    }
    for (int i = threadIdx.x; i < head_dim && seen > 0; i += 32) out[at + i] /= sum;
}

// The same of 256 keys of a long context, where there are any. Leaves the output times its sum of weights, behind it the sum and
// the maximum.
extern "C" __global__ void attend_part(const float *keys, const float *values, const long long *held, const float *q,
                                       const long long *lengths, float *parts, int batch, int layer, int max_len, int kv_heads,
                                       int head_dim, int t) {
    const size_t query = blockIdx.x % t, part = blockIdx.x / t, head = blockIdx.y, b = blockIdx.z, sequence = layer * batch + b;
    const size_t row = (b * gridDim.y + head) * t + query;
    const size_t cached = (sequence * kv_heads + head / (gridDim.y / kv_heads)) * max_len * head_dim;
    float *out = parts + (row * (gridDim.x / t) + part) * (head_dim + 2);
    const long long seen = query < lengths[b] ? held[sequence] - lengths[b] + query + 1 : 0;
    if (part * 256 >= seen) return;
    for (int i = threadIdx.x; i < head_dim; i += 32) out[i] = 0;
    float max = -INFINITY, sum = 0;
    for (long long j = part * 256; j < seen && j < (part + 1) * 256; j++) {
        const size_t key = cached + j * head_dim;
        float dot = 0;
        for (int i = threadIdx.x; i < head_dim; i += 32) dot += q[row * head_dim + i] * keys[key + i];
        const float score = warp_sum(dot) / sqrtf(head_dim);
        const float larger = fmaxf(max, score), factor = expf(max - larger), weight = expf(score - larger);
        for (int i = threadIdx.x; i < head_dim; i += 32) out[i] = out[i] * factor + weight * values[key + i];
        sum = sum * factor + weight;
        max = larger;
    }
    if (threadIdx.x == 0) {
        out[head_dim] = sum;
        out[head_dim + 1] = max;
    }
}

// A warp for each query, which has results of so many parts.
extern "C" __global__ void merge(const float *parts, float *out, const long long *held, const long long *lengths, int count,
                                 int head_dim, int batch, int layer, int heads, int t) {
    const size_t row = blockIdx.x, query = row % t, b = row / t / heads;
    const float *part = parts + row * count * (head_dim + 2);
    const long long seen = query < lengths[b] ? held[layer * batch + b] - lengths[b] + query + 1 : 0;
    const int there = seen > 0 ? seen / 256 + 1 : 0;
    float max = -INFINITY, sum = 0;
    for (int p = 0; p < there; p++) max = fmaxf(max, part[p * (head_dim + 2) + head_dim + 1]);
    for (int p = 0; p < there; p++) {
        sum += part[p * (head_dim + 2) + head_dim] * expf(part[p * (head_dim + 2) + head_dim + 1] - max);
    }
    for (int i = threadIdx.x; i < head_dim; i += 32) {
        float total = 0;
        for (int p = 0; p < there; p++) {
            total += part[p * (head_dim + 2) + i] * expf(part[p * (head_dim + 2) + head_dim + 1] - max);
        }
        out[row * head_dim + i] = there > 0 ? total / sum : 0;
    }
}

extern "C" __global__ void copy(const long long *held, long long *lengths, int count) {
    for (int i = threadIdx.x; i < count; i += blockDim.x) lengths[i] = held[i];
}

extern "C" __global__ void clear(long long *held, int layers, int batch, int sequence) {
    for (int layer = threadIdx.x; layer < layers; layer += blockDim.x) held[layer * batch + sequence] = 0;
}

extern "C" __global__ void tell(long long *bytes, long long value) { *bytes = value; }
