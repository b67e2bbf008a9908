/*
 * KV cache, layout [layers, batch, max_len, kv_heads, head_dim].
 */
#include <cuda_runtime.h>
#include <float.h>

extern "C" {

__global__ void validate_append(const long long* cache_lens, const long long* lengths, int* status, int layer, int batch, int max_len) {
    int b = threadIdx.x;
    while (b < batch) {
        long long new_len = cache_lens[layer * batch + b] + lengths[b];
        if (new_len > max_len) {
            atomicOr(status, 1);
            break;
        }
        b += blockDim.x;
    }
}

__global__ void append_kv(float* k_cache, float* v_cache, const long long* cache_lens, const float* k, const float* v,
                          const long long* lengths, const int* status, long long total, int layer, int batch, int kv_heads, int head_dim,
                          int max_len, int t) {
    long long idx = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total || *status != 0) return;
    int d = idx % head_dim;
    int pos = (idx / head_dim) % t;
    int h = (idx / ((long long)head_dim * t)) % kv_heads;
    int b = idx / ((long long)head_dim * t * kv_heads);
    if (pos >= lengths[b]) return;
    long long dst_pos = cache_lens[layer * batch + b] + pos;
    long long dst = ((((long long)layer * batch + b) * max_len + dst_pos) * kv_heads + h) * head_dim + d;
    k_cache[dst] = k[idx];
    v_cache[dst] = v[idx];
}

__global__ void update_lens(long long* cache_lens, const long long* lengths, const int* status, int layer, int batch) {
    if (*status != 0) return;
    for (int b = threadIdx.x; b < batch; b += blockDim.x) cache_lens[layer * batch + b] += lengths[b];
}

__global__ void attention(const float* k_cache, const float* v_cache, const long long* cache_lens, const float* q,
                          const long long* lengths, float* out, int layer, int max_len, int kv_heads, int head_dim) {
    extern __shared__ float smem[];
    float* scores = smem;                // max_len
    float* q_shared = scores + max_len;  // head_dim
    float* reduce = q_shared + head_dim; // 32

    const int qi = blockIdx.x, h = blockIdx.y, b = blockIdx.z;
    const int t = gridDim.x, heads = gridDim.y, batch = gridDim.z;
    const int tid = threadIdx.x;
    const long long o = (((long long)b * heads + h) * t + qi) * head_dim;

    if (qi >= lengths[b]) {
        for (int d = tid; d < head_dim; d += blockDim.x) out[o + d] = 0.0f;
        return;
    }
    const int ctx = (int)(cache_lens[layer * batch + b] - lengths[b] + qi + 1);
    const int kvh = h / (heads / kv_heads);
    const long long base = ((long long)layer * batch + b) * max_len * kv_heads * head_dim + (long long)kvh * head_dim;
    const long long stride = (long long)kv_heads * head_dim;

    for (int d = tid; d < head_dim; d += blockDim.x) q_shared[d] = q[o + d] / sqrtf((float)head_dim);
    __syncthreads();

    // scores, a thread per key
    float local_max = -FLT_MAX;
    for (int j = tid; j < ctx; j += blockDim.x) {
        float dot = 0.0f;
        #pragma unroll 4
        for (int d = 0; d < head_dim; ++d) dot += q_shared[d] * k_cache[base + j * stride + d];
        scores[j] = dot;
        local_max = fmaxf(local_max, dot);
    }
    if (tid < 32) reduce[tid] = -FLT_MAX;
    __syncthreads();
    for (int offset = 16; offset > 0; offset >>= 1) local_max = fmaxf(local_max, __shfl_down_sync(0xffffffff, local_max, offset));
    if (tid % 32 == 0) reduce[tid / 32] = local_max;
    __syncthreads();
    if (tid < 32) {
        float v = reduce[tid];
        for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_down_sync(0xffffffff, v, offset));
        if (tid == 0) reduce[0] = v;
    }
    __syncthreads();
    const float m = reduce[0];
    __syncthreads();

    float local_sum = 0.0f;
    for (int j = tid; j < ctx; j += blockDim.x) {
        scores[j] = expf(scores[j] - m);
        local_sum += scores[j];
    }
    for (int offset = 16; offset > 0; offset >>= 1) local_sum += __shfl_down_sync(0xffffffff, local_sum, offset);
    if (tid % 32 == 0) reduce[tid / 32] = local_sum;
    __syncthreads();
    float sum = 0.0f;
    const int warps = blockDim.x / 32;
    for (int w = 0; w < warps; ++w) sum += reduce[w];
    const float inv = 1.0f / sum;

    for (int d = tid; d < head_dim; d += blockDim.x) {
        float acc = 0.0f;
        for (int j = 0; j < ctx; ++j) acc += scores[j] * v_cache[base + j * stride + d];
        out[o + d] = acc * inv;
    }
}

__global__ void get_lengths(const long long* cache_lens, long long* lengths, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) lengths[i] = cache_lens[i];
}

__global__ void clear_sequence(long long* cache_lens, int layers, int batch, int sequence) {
    for (int l = threadIdx.x; l < layers; l += blockDim.x) cache_lens[l * batch + sequence] = 0;
}

__global__ void nbytes(long long* bytes, long long n) { bytes[0] = n; }

}  // extern "C"
