// Pass 1 (double-buffered with cuda::pipeline): online softmax and a histogram of the upper 11 bits of the ordered keys. Pass 2: what lies
// in the bins that may matter is collected. Then the collected keys are sorted by counting.
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
#include <cuda/pipeline>
#include <cuda/std/cstddef>

namespace cg = cooperative_groups;

static constexpr int TILE = 1024;
static constexpr int BINS = 2048;
static constexpr int THREADS = 256;

__device__ inline unsigned sortable(float f) {
    unsigned u = __float_as_uint(f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

extern "C" __global__ void histogram_topk(const float* logits, float* probs, long long* indices, unsigned long long* keys, int V, int k) {
    extern __shared__ float tiles[];
    __shared__ unsigned bins[BINS];
    __shared__ unsigned warp_sums[THREADS / 32];
    __shared__ unsigned first_bin, collected;
    __shared__ float s_max[THREADS / 32], s_sum[THREADS / 32];

    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const unsigned tid = block.thread_rank();
    const float* x = logits + size_t(blockIdx.x) * V;

    for (int i = tid; i < BINS; i += THREADS) bins[i] = 0;
    block.sync();

    auto pipe = cuda::make_pipeline();
    const int count = (V + TILE - 1) / TILE;
    // Every thread copies the elements that it will look at itself: no barrier of the block is needed.
    auto fetch = [&](int t) {
        pipe.producer_acquire();
        for (int i = tid; i < TILE; i += THREADS) {
            const int at = t * TILE + i;
            if (at < V) cuda::memcpy_async(&tiles[(t & 1) * TILE + i], &x[at], sizeof(float), pipe);
        }
        pipe.producer_commit();
    };
    float m = -INFINITY, s = 0.0f;
    if (count > 0) fetch(0);
    for (int t = 0; t < count; ++t) {
        if (t + 1 < count) {
            fetch(t + 1);
            cuda::pipeline_consumer_wait_prior<1>(pipe);
        } else {
            cuda::pipeline_consumer_wait_prior<0>(pipe);
        }
        for (int i = tid; i < TILE && t * TILE + i < V; i += THREADS) {
            const float v = tiles[(t & 1) * TILE + i];
            if (v != -INFINITY) {
                const float larger = fmaxf(m, v);
                s = (m == -INFINITY ? 0.0f : s * expf(m - larger)) + expf(v - larger);
                m = larger;
            }
            atomicAdd(&bins[sortable(v) >> 21], 1u);
        }
        pipe.consumer_release();
    }

    // (m, s) of the block.
    for (int o = warp.size() / 2; o > 0; o /= 2) {
        const float om = warp.shfl_down(m, o), os = warp.shfl_down(s, o), n = fmaxf(m, om);
        s = (s == 0 ? 0 : s * expf(m - n)) + (os == 0 ? 0 : os * expf(om - n));
        m = n;
    }
    if (warp.thread_rank() == 0) {
        s_max[warp.meta_group_rank()] = m;
        s_sum[warp.meta_group_rank()] = s;
    }
    block.sync();
    m = s_max[0];
    for (int w = 1; w < THREADS / 32; ++w) m = fmaxf(m, s_max[w]);
    s = 0;
    for (int w = 0; w < THREADS / 32; ++w) s += s_sum[w] == 0 ? 0 : s_sum[w] * expf(s_max[w] - m);

    // How many entries lie in a bin or above: thread t has bins [BINS - 8 (t + 1), BINS - 8 t).
    constexpr int PER = BINS / THREADS;
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < PER; ++i) own += bins[BINS - 1 - (tid * PER + i)];
    unsigned before = cg::exclusive_scan(warp, own, cg::plus<unsigned>());
    if (warp.thread_rank() == 31) warp_sums[warp.meta_group_rank()] = before + own;
    block.sync();
    for (unsigned w = 0; w < warp.meta_group_rank(); ++w) before += warp_sums[w];
    if (before < unsigned(k) && before + own >= unsigned(k)) {
        int bin = BINS - 1 - tid * PER;
        while (before + bins[bin] < unsigned(k)) before += bins[bin--];
        first_bin = bin;
        collected = 0;
    }
    block.sync();

    unsigned long long* mine = keys + size_t(blockIdx.x) * 2 * V;
    unsigned long long* sorted = mine + V;
    const unsigned limit = first_bin;
    for (int base = 0; base < V; base += THREADS) {
        const int i = base + tid;
        const unsigned u = i < V ? sortable(x[i]) : 0;
        const bool in = i < V && u >> 21 >= limit;
        const unsigned ballot = warp.ballot(in);
        unsigned start = 0;
        if (warp.thread_rank() == 0 && ballot) start = atomicAdd(&collected, __popc(ballot));
        start = warp.shfl(start, 0);
        if (in) mine[start + __popc(ballot & ((1u << warp.thread_rank()) - 1))] = (unsigned long long)u << 32 | unsigned(~i);
    }
    block.sync();

    // Bottom-up merge sort of the collected ones, a pair of runs being merged by all threads: places by binary search.
    const unsigned n = collected;
    unsigned long long *from = mine, *to = sorted;
    for (unsigned run = 1; run < n; run *= 2) {
        for (unsigned i = tid; i < n; i += THREADS) {
            const unsigned long long key = from[i];
            const unsigned begin = i / (2 * run) * (2 * run), middle = min(begin + run, n), end = min(middle + run, n);
            const bool left = i < middle;
            unsigned lo = left ? middle : begin, hi = left ? end : middle;
            const unsigned other = lo;
            while (lo < hi) {
                const unsigned mid = (lo + hi) / 2;
                if (from[mid] > key) lo = mid + 1;
                else hi = mid;
            }
            to[begin + (i - (left ? begin : middle)) + (lo - other)] = key;
        }
        block.sync();
        unsigned long long* t = from;
        from = to;
        to = t;
    }
    for (int i = tid; i < k; i += THREADS) {
        const unsigned u = from[i] >> 32;
        const float v = __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u);
        probs[size_t(blockIdx.x) * k + i] = expf(v - m) / s;
        indices[size_t(blockIdx.x) * k + i] = int(~unsigned(from[i]));
    }
}
