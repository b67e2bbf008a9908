// Fused online-softmax + top-k (one CTA per row).
//
// Pass 1 streams the row once: every thread keeps a running (max, sum) pair and a sorted
// list of its LOCAL best candidates as packed 64-bit keys in registers.
// Then k rounds of a block-wide arg-max over the heads of the lists. A thread whose list runs dry
// rescans its own elements for the next best ones (rare).
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cfloat>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace cg = cooperative_groups;

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kLocal = 4;

struct MD {
  float m;
  float d;
};

struct MDOp {
  __device__ __forceinline__ MD operator()(const MD &a, const MD &b) const {
    const bool a_bigger = a.m > b.m;
    const MD big = a_bigger ? a : b;
    const MD small = a_bigger ? b : a;
    MD r;
    r.m = big.m;
    r.d = big.d + (small.d == 0.f ? 0.f : small.d * __expf(small.m - big.m));
    return r;
  }
};

template <typename T>
struct alignas(16) Vec {
  static constexpr int N = 16 / sizeof(T);
  T v[N];
};

template <typename T>
__device__ __forceinline__ float to_float(T x) {
  if constexpr (std::is_same<T, __half>::value) {
    return __half2float(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(x);
  } else {
    return x;
  }
}

__device__ __forceinline__ uint32_t ordered(float f) {
  const uint32_t b = __float_as_uint(f + 0.0f);
  return (b & 0x80000000u) ? ~b : (b | 0x80000000u);
}

__device__ __forceinline__ float unordered(uint32_t u) {
  return __uint_as_float((u & 0x80000000u) ? (u & 0x7fffffffu) : ~u);
}

using Key = unsigned long long;

__device__ __forceinline__ Key pack(float f, int i) { return (Key(ordered(f)) << 32) | uint32_t(~i); }

struct LocalTopK {
  Key key[kLocal];
  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int i = 0; i < kLocal; ++i) key[i] = 0ull;
  }
  __device__ __forceinline__ void push(Key x) {
    if (x <= key[kLocal - 1]) return;
    key[kLocal - 1] = x;
#pragma unroll
    for (int i = kLocal - 1; i > 0; --i) {
      if (key[i] > key[i - 1]) {
        const Key t = key[i];
        key[i] = key[i - 1];
        key[i - 1] = t;
      }
    }
  }
  __device__ __forceinline__ void pop() {
#pragma unroll
    for (int i = 0; i + 1 < kLocal; ++i) key[i] = key[i + 1];
    key[kLocal - 1] = 0ull;
  }
};

// Calls f(value, index) for each element that belongs to this thread.
template <typename T, typename F>
__device__ __forceinline__ void for_each_of_mine(const T *__restrict__ row, int V, F &&f) {
  using V16 = Vec<T>;
  const auto addr = reinterpret_cast<uintptr_t>(row);
  int head = int(((16 - (addr & 15)) & 15) / sizeof(T));
  head = head < V ? head : V;
  for (int i = threadIdx.x; i < head; i += kThreads) f(to_float(row[i]), i);
  const int nvec = (V - head) / V16::N;
  const V16 *vec = reinterpret_cast<const V16 *>(row + head);
#pragma unroll 2
  for (int i = threadIdx.x; i < nvec; i += kThreads) {
    const V16 x = vec[i];
#pragma unroll
    for (int j = 0; j < V16::N; ++j) f(to_float(x.v[j]), head + i * V16::N + j);
  }
  for (int i = head + nvec * V16::N + threadIdx.x; i < V; i += kThreads) f(to_float(row[i]), i);
}

template <typename T>
__device__ void softmax_topk(const T *__restrict__ logits, float *__restrict__ probs, int64_t *__restrict__ indices,
                             int V, int k) {
  __shared__ MD s_md[kWarps];
  __shared__ Key s_key[2][kWarps];

  cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);

  const int64_t r = blockIdx.x;
  const T *row = logits + r * V;
  probs += r * k;
  indices += r * k;

  MD md{-std::numeric_limits<float>::infinity(), 0.f};
  LocalTopK best;
  best.reset();
  bool has_nan = false;

  for_each_of_mine(row, V, [&](float x, int i) {
    has_nan |= isnan(x);
    if (x > md.m) {
      md.d = md.d * __expf(md.m - x) + 1.f;
      md.m = x;
    } else if (x > -INFINITY) {
      md.d += __expf(x - md.m);
    }
    best.push(pack(x, i));
  });

  md = cg::reduce(warp, md, MDOp{});
  if (warp.thread_rank() == 0) s_md[warp.meta_group_rank()] = md;
  const bool bad = __syncthreads_or(has_nan);
  md = s_md[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) md = MDOp{}(md, s_md[w]);

  const float inv = md.d > 0.f && !bad ? __fdividef(1.f, md.d) : std::numeric_limits<float>::quiet_NaN();
  const int n = min(k, V);

  for (int round = 0; round < n; ++round) {
    const Key mine = best.key[0];
    const Key w = cg::reduce(warp, mine, cg::greater<Key>());
    if (warp.thread_rank() == 0) s_key[round & 1][warp.meta_group_rank()] = w;
    block.sync();
    Key win = s_key[round & 1][0];
#pragma unroll
    for (int i = 1; i < kWarps; ++i) win = win > s_key[round & 1][i] ? win : s_key[round & 1][i];
    if (mine == win) {
      const float x = unordered(uint32_t(win >> 32));
      probs[round] = __expf(x - md.m) * inv;
      indices[round] = int64_t(int(~uint32_t(win)));
      best.pop();
      if (best.key[0] == 0ull) {
        for_each_of_mine(row, V, [&](float y, int i) {
          const Key key = pack(y, i);
          if (key < win) best.push(key);
        });
      }
    }
  }
  for (int i = n + threadIdx.x; i < k; i += kThreads) {
    probs[i] = 0.f;
    indices[i] = -1;
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
softmax_topk_float(const float *logits, float *probs, int64_t *indices, int V, int k) {
  softmax_topk<float>(logits, probs, indices, V, k);
}
extern "C" __global__ void __launch_bounds__(kThreads)
softmax_topk_half(const __half *logits, float *probs, int64_t *indices, int V, int k) {
  softmax_topk<__half>(logits, probs, indices, V, k);
}
extern "C" __global__ void __launch_bounds__(kThreads)
softmax_topk_bf16(const __nv_bfloat16 *logits, float *probs, int64_t *indices, int V, int k) {
  softmax_topk<__nv_bfloat16>(logits, probs, indices, V, k);
}
