// Decode attention on tensor cores: the (<= 16) query heads of a KV head form the M dimension of
// mma.sync.m16n8k16. Q and P are split into hi + lo halves so products keep ~22 bits.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cstdint>

extern "C" __global__ void check_room(const int64_t* len, const int64_t* add, int* status, int batch, int layer, int max_len) {
  for (int b = threadIdx.x; b < batch; b += 32)
    if (len[layer * batch + b] + add[b] > max_len) atomicOr(status, 1);
}

template <typename T>
__device__ __forceinline__ void store(const float* k, const float* v, T* kc, T* vc, const int64_t* len, const int64_t* add,
                                      const int* status, int batch, int layer, int max_len, int dim) {
  const int tok = blockIdx.x, h = blockIdx.y, b = blockIdx.z, H = gridDim.y, t = gridDim.x;
  if (*status != 0 || tok >= add[b]) return;
  const int64_t src = ((int64_t(b) * H + h) * t + tok) * dim;
  const int64_t dst = ((int64_t(layer * batch + b) * H + h) * max_len + len[layer * batch + b] + tok) * dim;
  if constexpr (sizeof(T) == 2) {
    // head_dim is even
    for (int i = threadIdx.x; i < dim / 2; i += blockDim.x) {
      const float2 kk = *reinterpret_cast<const float2*>(k + src + 2 * i);
      const float2 vv = *reinterpret_cast<const float2*>(v + src + 2 * i);
      *reinterpret_cast<__half2*>(kc + dst + 2 * i) = __float22half2_rn(kk);
      *reinterpret_cast<__half2*>(vc + dst + 2 * i) = __floats2half2_rn(vv.x, vv.y);
    }
  } else {
    for (int i = threadIdx.x; i < dim; i += blockDim.x) {
      kc[dst + i] = k[src + i];
      vc[dst + i] = v[src + i];
    }
  }
}
extern "C" __global__ void store_f32(const float* k, const float* v, float* kc, float* vc, const int64_t* len, const int64_t* add,
                                     const int* st, int batch, int layer, int max_len, int dim) {
  store(k, v, kc, vc, len, add, st, batch, layer, max_len, dim);
}
extern "C" __global__ void store_f16(const float* k, const float* v, __half* kc, __half* vc, const int64_t* len,
                                     const int64_t* add, const int* st, int batch, int layer, int max_len, int dim) {
  store(k, v, kc, vc, len, add, st, batch, layer, max_len, dim);
}
extern "C" __global__ void commit(int64_t* len, const int64_t* add, const int* status, int batch, int layer) {
  if (*status) return;
  for (int b = threadIdx.x; b < batch; b += 32) len[layer * batch + b] += add[b];
}

__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t bits(__half2 h) { return *reinterpret_cast<uint32_t*>(&h); }
__device__ __forceinline__ void split2(float x, float y, uint32_t& hi, uint32_t& lo) {
  const __half2 h = __floats2half2_rn(x, y);
  const float2 f = __half22float2(h);
  hi = bits(h);
  lo = bits(__floats2half2_rn(x - f.x, y - f.y));
}
__device__ __forceinline__ uint32_t smem_u32(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

constexpr int TILE = 16;  // keys per step
constexpr int DMAX = 128;

extern "C" __global__ void __launch_bounds__(32)
attend_mma(const float* __restrict__ q, const __half* __restrict__ kc, const __half* __restrict__ vc,
           const int64_t* __restrict__ len, const int64_t* __restrict__ lengths, float* __restrict__ out, int batch, int layer,
           int max_len, int heads, int kv_heads, int t, int dim) {
  __shared__ __align__(16) __half sk[TILE][DMAX + 8];
  __shared__ __align__(16) __half sv[TILE][DMAX + 8];
  const int tok = blockIdx.x, hk = blockIdx.y, b = blockIdx.z, lane = threadIdx.x;
  const int fresh = (int)lengths[b];
  if (tok >= fresh) return;
  const int seq = layer * batch + b, group = heads / kv_heads;
  const int seen = (int)len[seq] - fresh + tok + 1;
  const __half* K = kc + (int64_t(seq) * kv_heads + hk) * max_len * dim;
  const __half* V = vc + (int64_t(seq) * kv_heads + hk) * max_len * dim;
  const int ksteps = dim / 16, nsteps = dim / 8;
  const int row0 = lane >> 2, row1 = row0 + 8, col = (lane & 3) * 2;
  const float scale = 1.0f / sqrtf((float)dim);
  auto qptr = [&](int g) { return q + ((int64_t(b) * heads + hk * group + g) * t + tok) * dim; };

  // Q fragments, rows beyond the group are zero
  uint32_t qh[DMAX / 16][4], ql[DMAX / 16][4];
#pragma unroll
  for (int s = 0; s < DMAX / 16; ++s) {
    if (s >= ksteps) break;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int g = (e & 1) ? row1 : row0;
      const int d = s * 16 + col + ((e & 2) ? 8 : 0);
      float2 v = make_float2(0.f, 0.f);
      if (g < group) v = *reinterpret_cast<const float2*>(qptr(g) + d);
      split2(v.x * scale, v.y * scale, qh[s][e], ql[s][e]);
    }
  }
  float o[DMAX / 8][4] = {};
  float m0 = -INFINITY, m1 = -INFINITY, l0 = 0.f, l1 = 0.f;

  for (int j0 = 0; j0 < seen; j0 += TILE) {
    const int n = min(TILE, seen - j0);
    __syncwarp();
    // cp.async 16 bytes a lane; rows beyond n are zero-filled
    for (int i = lane; i < TILE * dim / 8; i += 32) {
      const int r = i / (dim / 8), c = i % (dim / 8) * 8;
      const int src_bytes = r < n ? 16 : 0;
      const int64_t at = int64_t(j0 + (r < n ? r : 0)) * dim + c;
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(smem_u32(&sk[r][c])), "l"(K + at), "r"(src_bytes));
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(smem_u32(&sv[r][c])), "l"(V + at), "r"(src_bytes));
    }
    asm volatile("cp.async.commit_group;\n" ::);
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
    __syncwarp();

    // S = Q K^T : two n8 tiles
    float s[2][4] = {};
#pragma unroll
    for (int ks = 0; ks < DMAX / 16; ++ks) {
      if (ks >= ksteps) break;
      uint32_t k0, k1, k2, k3;
      // matrices: keys 0-7 d 0-7, keys 0-7 d 8-15, keys 8-15 d 0-7, keys 8-15 d 8-15
      const int kr = (lane & 7) + ((lane & 16) ? 8 : 0), kd = ks * 16 + ((lane & 8) ? 8 : 0);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                   : "=r"(k0), "=r"(k1), "=r"(k2), "=r"(k3)
                   : "r"(smem_u32(&sk[kr][kd])));
      mma16816(s[0], qh[ks], k0, k1);
      mma16816(s[0], ql[ks], k0, k1);
      mma16816(s[1], qh[ks], k2, k3);
      mma16816(s[1], ql[ks], k2, k3);
    }
    // mask
#pragma unroll
    for (int nt = 0; nt < 2; ++nt)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (nt * 8 + col + (e & 1) >= n) s[nt][e] = -INFINITY;

    float t0 = fmaxf(fmaxf(s[0][0], s[0][1]), fmaxf(s[1][0], s[1][1]));
    float t1 = fmaxf(fmaxf(s[0][2], s[0][3]), fmaxf(s[1][2], s[1][3]));
#pragma unroll
    for (int x = 1; x <= 2; x <<= 1) {
      t0 = fmaxf(t0, __shfl_xor_sync(0xffffffffu, t0, x));
      t1 = fmaxf(t1, __shfl_xor_sync(0xffffffffu, t1, x));
    }
    const float n0 = fmaxf(m0, t0), n1 = fmaxf(m1, t1);
    const float c0 = __expf(m0 - n0), c1 = __expf(m1 - n1);
    m0 = n0;
    m1 = n1;
    float r0 = 0.f, r1 = 0.f;
#pragma unroll
    for (int nt = 0; nt < 2; ++nt) {
      s[nt][0] = __expf(s[nt][0] - m0); s[nt][1] = __expf(s[nt][1] - m0);
      s[nt][2] = __expf(s[nt][2] - m1); s[nt][3] = __expf(s[nt][3] - m1);
      r0 += s[nt][0] + s[nt][1];
      r1 += s[nt][2] + s[nt][3];
    }
    l0 = l0 * c0 + r0;
    l1 = l1 * c1 + r1;
    uint32_t ph[4], pl[4];
    split2(s[0][0], s[0][1], ph[0], pl[0]);
    split2(s[0][2], s[0][3], ph[1], pl[1]);
    split2(s[1][0], s[1][1], ph[2], pl[2]);
    split2(s[1][2], s[1][3], ph[3], pl[3]);
    // O += P V
#pragma unroll
    for (int nt = 0; nt < DMAX / 8; ++nt) {
      if (nt >= nsteps) break;
      o[nt][0] *= c0; o[nt][1] *= c0; o[nt][2] *= c1; o[nt][3] *= c1;
      uint32_t v0, v1;
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                   : "=r"(v0), "=r"(v1)
                   : "r"(smem_u32(&sv[lane & 15][nt * 8])));
      mma16816(o[nt], ph, v0, v1);
      mma16816(o[nt], pl, v0, v1);
    }
  }
#pragma unroll
  for (int x = 1; x <= 2; x <<= 1) {
    l0 += __shfl_xor_sync(0xffffffffu, l0, x);
    l1 += __shfl_xor_sync(0xffffffffu, l1, x);
  }
  auto put = [&](int g, const float inv, int lo) {
    if (g >= group) return;
    float* dst = out + ((int64_t(b) * heads + hk * group + g) * t + tok) * dim;
    for (int nt = 0; nt < nsteps; ++nt)
      *reinterpret_cast<float2*>(dst + nt * 8 + col) = make_float2(o[nt][lo] * inv, o[nt][lo + 1] * inv);
  };
  put(row0, 1.f / l0, 0);
  put(row1, 1.f / l1, 2);
}

// ---- fallback: block of 4 warps, each takes every fourth key -------------------------------------------------------
template <typename T>
__device__ __forceinline__ void simt(const float* __restrict__ q, const T* __restrict__ kc, const T* __restrict__ vc,
                                     const int64_t* len, const int64_t* lengths, float* out, int batch, int layer, int max_len,
                                     int heads, int kv_heads, int t, int dim) {
  extern __shared__ float sm[];
  __shared__ float sml[4][2];
  float* sq = sm;
  const int tok = blockIdx.x, h = blockIdx.y, b = blockIdx.z, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  float* acc = sm + (1 + w) * dim;
  const int fresh = (int)lengths[b];
  if (tok >= fresh) return;
  const int seq = layer * batch + b, hk = h / (heads / kv_heads);
  const int seen = (int)len[seq] - fresh + tok + 1;
  const T* K = kc + (int64_t(seq) * kv_heads + hk) * max_len * dim;
  const T* V = vc + (int64_t(seq) * kv_heads + hk) * max_len * dim;
  const float* qq = q + ((int64_t(b) * heads + h) * t + tok) * dim;
  for (int d = threadIdx.x; d < dim; d += blockDim.x) sq[d] = qq[d] * (1.f / sqrtf((float)dim));
  for (int d = lane; d < dim; d += 32) acc[d] = 0.f;
  __syncthreads();
  float m = -INFINITY, l = 0.f;
  for (int j = w; j < seen; j += 4) {
    float s = 0.f;
    for (int d = lane; d < dim; d += 32) s += sq[d] * (float)K[int64_t(j) * dim + d];
#pragma unroll
    for (int x = 16; x; x >>= 1) s += __shfl_xor_sync(~0u, s, x);
    const float nm = fmaxf(m, s), c = __expf(m - nm), p = __expf(s - nm);
    l = l * c + p;
    m = nm;
    for (int d = lane; d < dim; d += 32) acc[d] = acc[d] * c + p * (float)V[int64_t(j) * dim + d];
  }
  if (lane == 0) { sml[w][0] = m; sml[w][1] = l; }
  __syncthreads();
  const float M = fmaxf(fmaxf(sml[0][0], sml[1][0]), fmaxf(sml[2][0], sml[3][0]));
  float L = 0.f, f[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    f[i] = __expf(sml[i][0] - M);
    L += f[i] * sml[i][1];
  }
  for (int d = threadIdx.x; d < dim; d += blockDim.x) {
    float a = 0.f;
#pragma unroll
    for (int i = 0; i < 4; ++i) a += f[i] * sm[(1 + i) * dim + d];
    out[((int64_t(b) * heads + h) * t + tok) * dim + d] = a / L;
  }
}
extern "C" __global__ void attend_simt_f16(const float* q, const __half* kc, const __half* vc, const int64_t* len,
                                           const int64_t* lengths, float* out, int batch, int layer, int max_len, int heads,
                                           int kv_heads, int t, int dim) {
  simt(q, kc, vc, len, lengths, out, batch, layer, max_len, heads, kv_heads, t, dim);
}
extern "C" __global__ void attend_simt_f32(const float* q, const float* kc, const float* vc, const int64_t* len,
                                           const int64_t* lengths, float* out, int batch, int layer, int max_len, int heads,
                                           int kv_heads, int t, int dim) {
  simt(q, kc, vc, len, lengths, out, batch, layer, max_len, heads, kv_heads, t, dim);
}
extern "C" __global__ void get_lengths(const int64_t* len, int64_t* out, int n) {
  for (int i = threadIdx.x; i < n; i += 32) out[i] = len[i];
}
extern "C" __global__ void clear_seq(int64_t* len, int layers, int batch, int seq) {
  for (int l = threadIdx.x; l < layers; l += 32) len[l * batch + seq] = 0;
}
extern "C" __global__ void put(int64_t* bytes, int64_t n) { *bytes = n; }
