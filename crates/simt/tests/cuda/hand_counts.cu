// Kernels whose traffic can be counted by hand: see `bar/hand_counts.rs`, which does.
//
// Buffers: x the input, y the output, f32. Blocks and grids as each says. Compute capability 7.0 or higher.

constexpr int LANES = 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr int SIDE = 32;
constexpr int TILE_ROWS = 8;
constexpr int SUM_THREADS = 256;

static_assert(SIDE == LANES && SIDE % TILE_ROWS == 0, "a warp takes a row of a tile");
static_assert(SUM_THREADS / LANES <= LANES, "a warp can add up what warps found");

// y[i] = x[i] + z[i]; a thread for each of n.
extern "C" __global__ void vadd(const float *x, const float *z, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + z[i];
}

// y[i] = x[i * stride]; a thread for each of n.
extern "C" __global__ void strided_copy(const float *x, float *y, int n, int stride) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[static_cast<long long>(i) * stride];
}

// y [n, n] is x [n, n] transposed, n a multiple of SIDE; blocks of SIDE * TILE_ROWS threads, a grid of n / SIDE by n / SIDE. Padding puts the
// elements of a column of the tile in different banks.
template <int PADDING> __device__ __forceinline__ void transpose(const float *x, float *y, int n) {
    __shared__ float tile[SIDE][SIDE + PADDING];
    const int lane = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
    for (int row = first; row < SIDE; row += TILE_ROWS) {
        tile[row][lane] = x[(blockIdx.y * SIDE + row) * n + blockIdx.x * SIDE + lane];
    }
    __syncthreads();
    for (int row = first; row < SIDE; row += TILE_ROWS) {
        y[(blockIdx.x * SIDE + row) * n + blockIdx.y * SIDE + lane] = tile[lane][row];
    }
}

extern "C" __global__ void transpose_unpadded(const float *x, float *y, int n) { transpose<0>(x, y, n); }

extern "C" __global__ void transpose_padded(const float *x, float *y, int n) { transpose<1>(x, y, n); }

// y[b] is the sum of SUM_THREADS elements of x, from b * SUM_THREADS on; as many threads to a block.
extern "C" __global__ void block_sum(const float *x, float *y) {
    __shared__ float sums[SUM_THREADS / LANES];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    float sum = x[blockIdx.x * SUM_THREADS + threadIdx.x];
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(ALL, sum, lanes);
    if (lane == 0) sums[warp] = sum;
    __syncthreads();
    if (warp != 0) return;
    sum = lane < SUM_THREADS / LANES ? sums[lane] : 0.0f;
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(ALL, sum, lanes);
    if (lane == 0) y[blockIdx.x] = sum;
}
