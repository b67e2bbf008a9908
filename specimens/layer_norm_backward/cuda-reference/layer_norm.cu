// Layer normalisation over the last axis, forward and backward.
//
//   y[r, c]   = gamma[c] * (x[r, c] - mean[r]) * rstd[r] + beta[c],   rstd[r] = 1 / sqrt(var[r] + eps)
//   dx[r, c]  = rstd[r] * (g[c] - mean_c(g) - xhat[c] * mean_c(g * xhat)),   g = dy * gamma,   xhat = (x - mean) * rstd
//   dgamma[c] = sum_r dy[r, c] * xhat[r, c],   dbeta[c] = sum_r dy[r, c]
//
// Buffers: x, y, dy, dx [rows, cols], row-major, contiguous. gamma, beta, dgamma, dbeta [cols]. mean, rstd [rows]: the cache, with
// x and gamma, which the caller has. partial_dgamma, partial_dbeta [grid, cols]: scratch between the two launches of
// backward. Any cols from 1 on, any rows from 0 on; a buffer need only be aligned to its elements.
//
// Launches, for element type T = f32 or f64:
//   layer_norm_forward_T            grid: any for which grid rows are a multiple of 32 bytes;   block: 32 to 512, a multiple of 32
//   layer_norm_forward_T_C          grid: the same;                                             block: 32 to B, a multiple of 32
//   layer_norm_backward_T           grid: as before;                                            block: 32 to 512, a multiple of 32
//   layer_norm_backward_T_C         grid: the same;                                             block: 32 to B, a multiple of 32
//   layer_norm_backward_columns_T   grid: cols / 16, rounded up;                                block: 32 to 512, a multiple of 32
//   layer_norm_*_plain_f32          grid: rows, or cols / block, rounded up;                    block: 32 to 1024, a multiple of 32
// T_C, C the most columns: rows of up to C columns, a multiple of 32 bytes, at a multiple of 16 bytes, are held whole, of which more below, if so
// many vectors of 16 bytes a thread (in brackets) are enough for a row, of a warp for f32_768 (6) and f32_1024 (8), else of the block. All
// others are for T: here they end the launch by a trap.
//   forward    f32_768 (6), f32_1024 (8): B = 128;   f32_4096 (4), f32_8192 (8): B = 256;   f64_4096 (4): B = 512
//   backward   f32_768 (6), f32_1024 (8): B = 256;   f32_4096 (2), f32_8192 (4): B = 512;   f64_2048 (4): B = 256
// Shared memory is static but for backward_T_C: sizeof(T) cols (1 + 4 warps) bytes where a warp holds a row, 5 sizeof(T) cols else. No bank conflicts.
// Compute capability 8.0 or higher. `tribunal.toml` of the submission has grids for as many multiprocessors as there are, each of capability 9.0.
// Where one holds fewer blocks, backward's come in waves: take as many as there is room for.
//
// T: a block takes every grid-th row, and its threads keep their columns from row to row, gamma and beta with them: so these are
// read once a block and not once a row, and the sums of dgamma and dbeta stay in registers. Vectors of 16 bytes are counted from the sector of
// 32 bytes in which a row begins, so that no request touches a sector more than it must. Where rows begin at different places
// in a sector, those of a block must not: hence the condition on grid, which a multiple of 8 (f32) or 4 (f64) always meets. Vectors
// that are not wholly of the row go element by element. Beyond 2 vectors a thread, the columns that are too many are read three
// times forward, twice backward, with gamma, beta and the sums for every row.
//
// T_C: the same with nothing to ask of an element, and with the next row under way while a row is computed: forward in registers (not f32_8192),
// backward in shared memory, by asynchronous copies that each thread makes and awaits for itself. A warp that holds a row waits for no other;
// its block's sums of columns are added up when all rows are done.
//
// Traffic in bytes, with s = sizeof(T): forward reads and writes 2 s rows cols, and 2 s cols a block. Backward 3 s rows cols, and
// 5 s cols a block; the columns' kernel, 2 s cols a block of that before. 2 s rows more for the cache. That is what must be moved
// as soon as a block has some dozens of rows. Forward is quicker with more blocks than that, as gamma and beta come from the L2 cache; backward
// is not, since sums of blocks are written.
//
// Sums are taken in T, over the columns of a thread, then in a tree: no sum has more than some dozens of terms in a chain. The
// variance is that of Chan, Golub and LeVeque 1983: the mean first, then sums of d = x - mean and d^2, of which the first
// corrects what rounding did to the mean. No atomics: results do not depend on the order of blocks or warps.
//
// Ba, Kiros, Hinton 2016, https://arxiv.org/abs/1607.06450. What `layer_norm.ptx` is made by, and what runs it without a GPU, is
// in README.md beside this file; with nvcc: nvcc -std=c++17 -arch=sm_80 -ptx layer_norm.cu.

constexpr int LANES = 32;
constexpr unsigned ALL = 0xffffffffu;
constexpr int MAX_WARPS = 32;
constexpr int PLAIN_THREADS = 1024;
constexpr int COLUMNS_THREADS = 512;
constexpr int VECTOR_BYTES = 16;
constexpr int SECTOR_BYTES = 32;
// Asynchronous copies of a line of memory go to one of shared memory, or sectors would be asked for twice.
constexpr int LINE_BYTES = 128;
// Vectors of a row that a thread holds in registers, of rows that have any length.
constexpr int HELD = 2;
// Most warps of a block that each take rows backward.
constexpr int WARPS_OF_ROWS = 8;
// Columns of a block that adds up sums, and sums of each that a thread asks for at once.
constexpr int COLUMNS = 16, UNROLLED = 8;

static_assert(PLAIN_THREADS <= LANES * MAX_WARPS, "each warp has a place for its sum");
static_assert(2 * COLUMNS == LANES, "a warp writes both sums of a block's columns");

// Sixteen bytes, which must be aligned. The empty statements keep them together: where the other branch ends with an access to the same
// element, clang moves that out of both, and three elements and one are no access of sixteen bytes.
template <typename T> struct Vector;
template <> struct Vector<float> {
    static __device__ __forceinline__ void load(float (&to)[4], const float *from) {
        float4 vector = *reinterpret_cast<const float4 *>(from);
        asm("" : "+f"(vector.x), "+f"(vector.y), "+f"(vector.z), "+f"(vector.w));
        to[0] = vector.x, to[1] = vector.y, to[2] = vector.z, to[3] = vector.w;
    }
    static __device__ __forceinline__ void store(float *to, const float (&from)[4]) {
        float4 vector;
        vector.x = from[0], vector.y = from[1], vector.z = from[2], vector.w = from[3];
        *reinterpret_cast<float4 *>(to) = vector;
        asm volatile("" ::: "memory");
    }
};
template <> struct Vector<double> {
    static __device__ __forceinline__ void load(double (&to)[2], const double *from) {
        double2 vector = *reinterpret_cast<const double2 *>(from);
        asm("" : "+d"(vector.x), "+d"(vector.y));
        to[0] = vector.x, to[1] = vector.y;
    }
    static __device__ __forceinline__ void store(double *to, const double (&from)[2]) {
        double2 vector;
        vector.x = from[0], vector.y = from[1];
        *reinterpret_cast<double2 *>(to) = vector;
        asm volatile("" ::: "memory");
    }
};

// A row in vectors, counted from the sector in which it begins. The first and the last may reach beyond it.
template <typename T> struct Row {
    static constexpr int LEN = VECTOR_BYTES / sizeof(T);
    static_assert(LEN * sizeof(T) == VECTOR_BYTES, "vectors are full");

    static constexpr int SECTOR = SECTOR_BYTES / sizeof(T);
    static_assert(SECTOR % LEN == 0, "sectors are whole vectors");

    // Elements of its first sector that are before it.
    static __device__ __forceinline__ int shift(const T *row) {
        return static_cast<int>(reinterpret_cast<size_t>(row) / sizeof(T) % SECTOR);
    }

    static __device__ __forceinline__ bool has(int col, int cols) {
        return static_cast<unsigned>(col) < static_cast<unsigned>(cols);
    }

    static __device__ __forceinline__ bool whole(int first, int cols) {
        return first >= 0 && first + LEN <= cols;
    }

    // Columns first .. first + LEN; zeros where the row has none. `aligned`: column `first` is at a multiple of 16 bytes.
    static __device__ __forceinline__ void load(T (&to)[LEN], const T *row, int first, int cols, bool aligned) {
        if (aligned && whole(first, cols)) {
            Vector<T>::load(to, row + first);
        } else {
#pragma unroll
            for (int j = 0; j < LEN; ++j) to[j] = has(first + j, cols) ? row[first + j] : T(0);
        }
    }

    static __device__ __forceinline__ void store(T *row, const T (&from)[LEN], int first, int cols, bool aligned) {
        if (aligned && whole(first, cols)) {
            Vector<T>::store(row + first, from);
        } else {
#pragma unroll
            for (int j = 0; j < LEN; ++j) {
                if (has(first + j, cols)) row[first + j] = from[j];
            }
        }
    }
};

// The sum over the lanes, the same bits in each.
template <typename T> __device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) value += __shfl_xor_sync(ALL, value, lanes);
    return value;
}

// The sum over the block. `sums` [MAX_WARPS] may be used again after the block's next barrier but one.
template <typename T> __device__ __forceinline__ T block_sum(T value, T *sums) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    value = warp_sum(value);
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    return warp_sum(lane < static_cast<int>(blockDim.x) / LANES ? sums[lane] : T(0));
}

// The same of two values, with one barrier. `sums` [2 * MAX_WARPS].
template <typename T> __device__ __forceinline__ void block_sums(T &a, T &b, T *sums) {
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    a = warp_sum(a);
    b = warp_sum(b);
    if (lane == 0) {
        sums[warp] = a;
        sums[MAX_WARPS + warp] = b;
    }
    __syncthreads();
    const bool has = lane < static_cast<int>(blockDim.x) / LANES;
    a = warp_sum(has ? sums[lane] : T(0));
    b = warp_sum(has ? sums[MAX_WARPS + lane] : T(0));
}

// A value that one lane reads and all get: 32 lanes that read it are 32 reads to some memories.
template <typename T> __device__ __forceinline__ T broadcast(const T *from) {
    return __shfl_sync(ALL, threadIdx.x % LANES == 0 ? *from : T(0), 0);
}

// -- Plain: three reads of x forward, five reads of x and dy backward, parameters for every row. ------------------------------------

extern "C" __global__ void __launch_bounds__(PLAIN_THREADS)
layer_norm_forward_plain_f32(const float *x, const float *gamma, const float *beta, float *y, float *mean, float *rstd, long long rows,
                             int cols, float eps) {
    __shared__ float sums[2][MAX_WARPS];
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *from = x + row * cols;
        float sum = 0.0f, squares = 0.0f;
        for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += from[c];
        const float m = block_sum(sum, sums[0]) / cols;
        for (int c = threadIdx.x; c < cols; c += blockDim.x) squares += (from[c] - m) * (from[c] - m);
        const float r = 1.0f / sqrtf(block_sum(squares, sums[1]) / cols + eps);
        for (int c = threadIdx.x; c < cols; c += blockDim.x) y[row * cols + c] = (from[c] - m) * r * gamma[c] + beta[c];
        if (threadIdx.x == 0) {
            mean[row] = m;
            rstd[row] = r;
        }
    }
}

extern "C" __global__ void __launch_bounds__(PLAIN_THREADS)
layer_norm_backward_plain_f32(const float *x, const float *dy, const float *gamma, const float *mean, const float *rstd, float *dx,
                              long long rows, int cols) {
    __shared__ float sums[2][MAX_WARPS];
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long start = row * cols;
        const float m = mean[row], r = rstd[row];
        float g_sum = 0.0f, gx_sum = 0.0f;
        for (int c = threadIdx.x; c < cols; c += blockDim.x) g_sum += dy[start + c] * gamma[c];
        for (int c = threadIdx.x; c < cols; c += blockDim.x) gx_sum += dy[start + c] * gamma[c] * ((x[start + c] - m) * r);
        const float g_mean = block_sum(g_sum, sums[0]) / cols;
        const float gx_mean = block_sum(gx_sum, sums[1]) / cols;
        for (int c = threadIdx.x; c < cols; c += blockDim.x) {
            dx[start + c] = r * (dy[start + c] * gamma[c] - g_mean - (x[start + c] - m) * r * gx_mean);
        }
    }
}

// A thread takes a column, in all rows.
extern "C" __global__ void __launch_bounds__(PLAIN_THREADS)
layer_norm_backward_columns_plain_f32(const float *x, const float *dy, const float *mean, const float *rstd, float *dgamma, float *dbeta,
                                      long long rows, int cols) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float dg = 0.0f, db = 0.0f;
    for (long long row = 0; row < rows; ++row) {
        const float d = dy[row * cols + c];
        dg += d * ((x[row * cols + c] - mean[row]) * rstd[row]);
        db += d;
    }
    dgamma[c] = dg;
    dbeta[c] = db;
}

// -- Fast ----------------------------------------------------------------------------------------------------------------------------

// Rows of a block have one shift, or columns would change their threads.
template <typename T> __device__ __forceinline__ void check_grid(int cols) {
    constexpr int SECTOR = Row<T>::SECTOR;
    if (cols % SECTOR * (gridDim.x % SECTOR) % SECTOR != 0) __trap();
}

// One read of x: a row is held in registers while its statistics are taken. Costs registers: 24 of 32 bits for x, gamma and beta.
template <typename T>
__device__ __forceinline__ void forward(const T *__restrict__ x, const T *__restrict__ gamma, const T *__restrict__ beta,
                                        T *__restrict__ y, T *__restrict__ mean, T *__restrict__ rstd, long long rows, int cols, T eps) {
    constexpr int LEN = Row<T>::LEN;
    __shared__ T sums[MAX_WARPS];
    __shared__ T deviations[2 * MAX_WARPS];
    check_grid<T>(cols);
    const int shift = Row<T>::shift(x + static_cast<long long>(blockIdx.x) * cols);
    const bool alike = shift == Row<T>::shift(y + static_cast<long long>(blockIdx.x) * cols);
    const bool gamma_alike = shift == Row<T>::shift(gamma), beta_alike = shift == Row<T>::shift(beta);
    const int stride = blockDim.x * LEN;
    const int begin = threadIdx.x * LEN - shift;
    const int rest = begin + HELD * stride;
    T g[HELD][LEN], b[HELD][LEN];
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        Row<T>::load(g[i], gamma, begin + i * stride, cols, gamma_alike);
        Row<T>::load(b[i], beta, begin + i * stride, cols, beta_alike);
    }
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *from = x + row * cols;
        T *to = y + row * cols;
        T held[HELD][LEN], other[LEN];
        T sum = 0;
#pragma unroll
        for (int i = 0; i < HELD; ++i) Row<T>::load(held[i], from, begin + i * stride, cols, true);
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
#pragma unroll
            for (int j = 0; j < LEN; ++j) sum += held[i][j];
        }
        for (int first = rest; first < cols; first += stride) {
            Row<T>::load(other, from, first, cols, true);
#pragma unroll
            for (int j = 0; j < LEN; ++j) sum += other[j];
        }
        T m = block_sum(sum, sums) / cols;

        T deviation = 0, squares = 0;
        auto deviate = [&](const T(&values)[LEN], int first) {
#pragma unroll
            for (int j = 0; j < LEN; ++j) {
                // The zeros beyond the row are no values of it.
                const T d = Row<T>::has(first + j, cols) ? values[j] - m : T(0);
                deviation += d;
                squares += d * d;
            }
        };
#pragma unroll
        for (int i = 0; i < HELD; ++i) deviate(held[i], begin + i * stride);
        for (int first = rest; first < cols; first += stride) {
            Row<T>::load(other, from, first, cols, true);
            deviate(other, first);
        }
        block_sums(deviation, squares, deviations);
        const T correction = deviation / cols;
        const T r = T(1) / sqrt((squares - deviation * correction) / cols + eps);
        m += correction;

        auto normalise = [&](T(&values)[LEN], const T(&scale)[LEN], const T(&bias)[LEN], int first) {
#pragma unroll
            for (int j = 0; j < LEN; ++j) values[j] = (values[j] - m) * r * scale[j] + bias[j];
            Row<T>::store(to, values, first, cols, alike);
        };
#pragma unroll
        for (int i = 0; i < HELD; ++i) normalise(held[i], g[i], b[i], begin + i * stride);
        for (int first = rest; first < cols; first += stride) {
            T scale[LEN], bias[LEN];
            Row<T>::load(other, from, first, cols, true);
            Row<T>::load(scale, gamma, first, cols, gamma_alike);
            Row<T>::load(bias, beta, first, cols, beta_alike);
            normalise(other, scale, bias, first);
        }
        if (threadIdx.x == 0) {
            mean[row] = m;
            rstd[row] = r;
        }
    }
}

// One read of x and dy; sums of columns stay in registers over the rows of a block. Costs registers, 40 of 32 bits, and a second
// launch, which adds up the sums of blocks.
template <typename T>
__device__ __forceinline__ void backward(const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ gamma,
                                         const T *__restrict__ mean, const T *__restrict__ rstd, T *__restrict__ dx,
                                         T *__restrict__ partial_dgamma, T *__restrict__ partial_dbeta, long long rows, int cols) {
    constexpr int LEN = Row<T>::LEN;
    // A row writes one half while slower warps still read the other.
    __shared__ T sums[2][2 * MAX_WARPS];
    check_grid<T>(cols);
    const long long place = static_cast<long long>(blockIdx.x) * cols;
    const int shift = Row<T>::shift(x + place);
    const bool dy_alike = shift == Row<T>::shift(dy + place), dx_alike = shift == Row<T>::shift(dx + place);
    const bool gamma_alike = shift == Row<T>::shift(gamma);
    const int stride = blockDim.x * LEN;
    const int begin = threadIdx.x * LEN - shift;
    const int rest = begin + HELD * stride;
    T *dgamma = partial_dgamma + place, *dbeta = partial_dbeta + place;
    const bool dgamma_alike = shift == Row<T>::shift(dgamma), dbeta_alike = shift == Row<T>::shift(dbeta);
    T scale[HELD][LEN], dg[HELD][LEN], db[HELD][LEN];
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        Row<T>::load(scale[i], gamma, begin + i * stride, cols, gamma_alike);
#pragma unroll
        for (int j = 0; j < LEN; ++j) dg[i][j] = db[i][j] = T(0);
    }
    const T zeros[LEN] = {};
    for (int first = rest; first < cols; first += stride) {
        Row<T>::store(dgamma, zeros, first, cols, dgamma_alike);
        Row<T>::store(dbeta, zeros, first, cols, dbeta_alike);
    }
    int half = 0;
    for (long long row = blockIdx.x; row < rows; row += gridDim.x, half ^= 1) {
        const T *x_row = x + row * cols, *dy_row = dy + row * cols;
        T *dx_row = dx + row * cols;
        const T m = broadcast(mean + row), r = broadcast(rstd + row);
        T normal[HELD][LEN], grad[HELD][LEN];
        T g_sum = 0, gx_sum = 0;
#pragma unroll
        for (int i = 0; i < HELD; ++i) {
            Row<T>::load(normal[i], x_row, begin + i * stride, cols, true);
            Row<T>::load(grad[i], dy_row, begin + i * stride, cols, dy_alike);
        }
        // Beyond the row dy is zero, so that xhat does not matter there.
        auto add = [&](T(&xs)[LEN], const T(&dys)[LEN], const T(&scales)[LEN], T(&dgs)[LEN], T(&dbs)[LEN]) {
#pragma unroll
            for (int j = 0; j < LEN; ++j) {
                xs[j] = (xs[j] - m) * r;
                dgs[j] += dys[j] * xs[j];
                dbs[j] += dys[j];
                const T g = dys[j] * scales[j];
                g_sum += g;
                gx_sum += g * xs[j];
            }
        };
#pragma unroll
        for (int i = 0; i < HELD; ++i) add(normal[i], grad[i], scale[i], dg[i], db[i]);
        for (int first = rest; first < cols; first += stride) {
            T xs[LEN], dys[LEN], scales[LEN], dgs[LEN], dbs[LEN];
            Row<T>::load(xs, x_row, first, cols, true);
            Row<T>::load(dys, dy_row, first, cols, dy_alike);
            Row<T>::load(scales, gamma, first, cols, gamma_alike);
            Row<T>::load(dgs, dgamma, first, cols, dgamma_alike);
            Row<T>::load(dbs, dbeta, first, cols, dbeta_alike);
            add(xs, dys, scales, dgs, dbs);
            Row<T>::store(dgamma, dgs, first, cols, dgamma_alike);
            Row<T>::store(dbeta, dbs, first, cols, dbeta_alike);
        }
        block_sums(g_sum, gx_sum, sums[half]);
        const T g_mean = g_sum / cols, gx_mean = gx_sum / cols;

        auto put = [&](const T(&xhats)[LEN], T(&dys)[LEN], const T(&scales)[LEN], int first) {
#pragma unroll
            for (int j = 0; j < LEN; ++j) dys[j] = r * (dys[j] * scales[j] - g_mean - xhats[j] * gx_mean);
            Row<T>::store(dx_row, dys, first, cols, dx_alike);
        };
#pragma unroll
        for (int i = 0; i < HELD; ++i) put(normal[i], grad[i], scale[i], begin + i * stride);
        for (int first = rest; first < cols; first += stride) {
            T xs[LEN], dys[LEN], scales[LEN];
            Row<T>::load(xs, x_row, first, cols, true);
            Row<T>::load(dys, dy_row, first, cols, dy_alike);
            Row<T>::load(scales, gamma, first, cols, gamma_alike);
#pragma unroll
            for (int j = 0; j < LEN; ++j) xs[j] = (xs[j] - m) * r;
            put(xs, dys, scales, first);
        }
    }
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
        Row<T>::store(dgamma, dg[i], begin + i * stride, cols, dgamma_alike);
        Row<T>::store(dbeta, db[i], begin + i * stride, cols, dbeta_alike);
    }
}

// -- Held: rows of whole sectors that registers of a warp, or of a block, hold whole -------------------------------------------------

// Who takes a row, and which: a warp each, or the block.
template <typename T, bool WARP> struct Share {
    static constexpr int LEN = Row<T>::LEN;
    int begin, stride;
    long long first, step;

    __device__ __forceinline__ Share() {
        const int warps = blockDim.x / LANES;
        const int threads = WARP ? LANES : static_cast<int>(blockDim.x);
        begin = static_cast<int>(threadIdx.x) % threads * LEN;
        stride = threads * LEN;
        first = WARP ? static_cast<long long>(blockIdx.x) * warps + threadIdx.x / LANES : blockIdx.x;
        step = static_cast<long long>(gridDim.x) * (WARP ? warps : 1);
    }

    // Ends the launch where rows cannot be taken so: a row would be taken in part, or one as another.
    template <int VECTORS, typename... Buffers> __device__ __forceinline__ void check(int cols, const Buffers *...buffers) const {
        const bool aligned = (... && (reinterpret_cast<size_t>(buffers) % VECTOR_BYTES == 0));
        if (cols % Row<T>::SECTOR != 0 || cols > VECTORS * stride || !aligned) __trap();
    }
};

// A thread's vectors of a row, each of them wholly of the row or not at all.
template <typename T, int VECTORS> struct Held {
    static constexpr int LEN = Row<T>::LEN;
    T at[VECTORS][LEN];

    __device__ __forceinline__ void load(const T *row, int begin, int stride, int cols) {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (begin + i * stride < cols) {
                Vector<T>::load(at[i], row + begin + i * stride);
            } else {
#pragma unroll
                for (int j = 0; j < LEN; ++j) at[i][j] = T(0);
            }
        }
    }
    __device__ __forceinline__ void store(T *row, int begin, int stride, int cols) const {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (begin + i * stride < cols) Vector<T>::store(row + begin + i * stride, at[i]);
        }
    }
};

// Forward. NEXT: the next row is on its way while this one's statistics are taken, which costs as many registers as a row. gamma and beta lie in
// shared memory where a block's warps have rows of their own, so that a block reads them once, and in registers else.
template <typename T, int VECTORS, bool WARP, bool NEXT>
__device__ __forceinline__ void forward_held(const T *__restrict__ x, const T *__restrict__ gamma, const T *__restrict__ beta,
                                             T *__restrict__ y, T *__restrict__ mean, T *__restrict__ rstd, long long rows, int cols,
                                             T eps) {
    constexpr int LEN = Row<T>::LEN;
    __shared__ T sums[MAX_WARPS];
    __shared__ T deviations[2 * MAX_WARPS];
    __shared__ __align__(VECTOR_BYTES) T parameters[2][WARP ? VECTORS * LANES * LEN : 1];
    const Share<T, WARP> share;
    share.template check<VECTORS>(cols, x, gamma, beta, y);
    const int begin = share.begin, stride = share.stride;
    const T count = T(1) / cols;
    Held<T, VECTORS> next, scale, bias;
    if (NEXT && share.first < rows) next.load(x + share.first * cols, begin, stride, cols);
    if constexpr (WARP) {
        for (int c = threadIdx.x * LEN; c < cols; c += blockDim.x * LEN) {
            T values[LEN];
            Vector<T>::load(values, gamma + c);
            Vector<T>::store(parameters[0] + c, values);
            Vector<T>::load(values, beta + c);
            Vector<T>::store(parameters[1] + c, values);
        }
        __syncthreads();
    } else {
        scale.load(gamma, begin, stride, cols);
        bias.load(beta, begin, stride, cols);
    }
    for (long long row = share.first; row < rows; row += share.step) {
        Held<T, VECTORS> held;
        if constexpr (NEXT) {
            held = next;
            if (row + share.step < rows) next.load(x + (row + share.step) * cols, begin, stride, cols);
        } else {
            held.load(x + row * cols, begin, stride, cols);
        }
        T sum = 0;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            T part = 0;
#pragma unroll
            for (int j = 0; j < LEN; ++j) part += held.at[i][j];
            sum += part;
        }
        T m = (WARP ? warp_sum(sum) : block_sum(sum, sums)) * count;
        T deviation = 0, squares = 0;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            // The zeros beyond the row are no values of it.
            const bool has = begin + i * stride < cols;
#pragma unroll
            for (int j = 0; j < LEN; ++j) {
                const T d = has ? held.at[i][j] - m : T(0);
                deviation += d;
                squares += d * d;
            }
        }
        if constexpr (WARP) {
            deviation = warp_sum(deviation);
            squares = warp_sum(squares);
        } else {
            block_sums(deviation, squares, deviations);
        }
        const T correction = deviation * count;
        const T r = T(1) / sqrt((squares - deviation * correction) * count + eps);
        m += correction;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (begin + i * stride < cols) {
                if constexpr (WARP) {
                    Vector<T>::load(scale.at[i], parameters[0] + begin + i * stride);
                    Vector<T>::load(bias.at[i], parameters[1] + begin + i * stride);
                }
#pragma unroll
                for (int j = 0; j < LEN; ++j) held.at[i][j] = (held.at[i][j] - m) * r * scale.at[i][j] + bias.at[i][j];
                Vector<T>::store(y + row * cols + begin + i * stride, held.at[i]);
            }
        }
        if (begin == 0) {
            mean[row] = m;
            rstd[row] = r;
        }
    }
}

// Sixteen bytes from global to shared memory, on their way while the thread goes on.
__device__ __forceinline__ void copy_async(void *to, const void *from) {
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
}

// Waits until this thread's groups of copies but the last `LATER` are there.
template <int LATER> __device__ __forceinline__ void await_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// Backward. x and dy of the next row are copied into shared memory while this one is computed, each thread's vectors by itself and for itself:
// no barrier is for that. Then they are in registers, as are the sums of dgamma and dbeta over the rows of a warp or the block.
template <typename T, int VECTORS, bool WARP>
__device__ __forceinline__ void backward_held(const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ gamma,
                                              const T *__restrict__ mean, const T *__restrict__ rstd, T *__restrict__ dx,
                                              T *__restrict__ partial_dgamma, T *__restrict__ partial_dbeta, long long rows, int cols) {
    constexpr int LEN = Row<T>::LEN;
    // gamma; then for each warp, or the block, two stages of a row of x and one of dy.
    extern __shared__ __align__(LINE_BYTES) char room[];
    __shared__ T sums[2][2 * MAX_WARPS];
    const Share<T, WARP> share;
    share.template check<VECTORS>(cols, x, dy, gamma, dx, partial_dgamma, partial_dbeta);
    const int begin = share.begin, stride = share.stride, warps = blockDim.x / LANES;
    T *parameters = reinterpret_cast<T *>(room), *stages = parameters + cols;
    T *own = stages + (WARP ? static_cast<int>(threadIdx.x) / LANES * 4 * cols : 0) + begin;
    auto fetch = [&](long long row, int stage) {
        if (row < rows) {
            const T *x_row = x + row * cols + begin, *dy_row = dy + row * cols + begin;
            T *to = own + stage * 2 * cols;
#pragma unroll
            for (int i = 0; i < VECTORS; ++i) {
                if (begin + i * stride < cols) {
                    copy_async(to + i * stride, x_row + i * stride);
                    copy_async(to + cols + i * stride, dy_row + i * stride);
                }
            }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    // Of a block's row each thread needs its own columns of gamma alone, and waits for nobody.
    if constexpr (!WARP) {
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (begin + i * stride < cols) copy_async(parameters + begin + i * stride, gamma + begin + i * stride);
        }
    }
    fetch(share.first, 0);
    if constexpr (WARP) {
        for (int c = threadIdx.x * LEN; c < cols; c += blockDim.x * LEN) {
            T values[LEN];
            Vector<T>::load(values, gamma + c);
            Vector<T>::store(parameters + c, values);
        }
        __syncthreads();
    }
    const T count = T(1) / cols;
    Held<T, VECTORS> dgamma, dbeta;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
        for (int j = 0; j < LEN; ++j) dgamma.at[i][j] = dbeta.at[i][j] = T(0);
    }
    int stage = 0;
    for (long long row = share.first; row < rows; row += share.step, stage ^= 1) {
        const T m = broadcast(mean + row), r = broadcast(rstd + row);
        fetch(row + share.step, stage ^ 1);
        await_copies<1>();
        Held<T, VECTORS> xhat, g;
        xhat.load(own - begin + stage * 2 * cols, begin, stride, cols);
        g.load(own - begin + stage * 2 * cols + cols, begin, stride, cols);
        T g_sum = 0, gx_sum = 0;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
            if (begin + i * stride < cols) {
                T scale[LEN];
                Vector<T>::load(scale, parameters + begin + i * stride);
#pragma unroll
                for (int j = 0; j < LEN; ++j) {
                    T &xh = xhat.at[i][j], &d = g.at[i][j];
                    xh = (xh - m) * r;
                    dgamma.at[i][j] += d * xh;
                    dbeta.at[i][j] += d;
                    d *= scale[j];
                    g_sum += d;
                    gx_sum += d * xh;
                }
            }
        }
        if constexpr (WARP) {
            g_sum = warp_sum(g_sum);
            gx_sum = warp_sum(gx_sum);
        } else {
            block_sums(g_sum, gx_sum, sums[stage]);
        }
        const T g_mean = g_sum * count, gx_mean = gx_sum * count;
#pragma unroll
        for (int i = 0; i < VECTORS; ++i) {
#pragma unroll
            for (int j = 0; j < LEN; ++j) g.at[i][j] = r * (g.at[i][j] - g_mean - xhat.at[i][j] * gx_mean);
        }
        g.store(dx + row * cols, begin, stride, cols);
    }
    const long long place = static_cast<long long>(blockIdx.x) * cols;
    // gamma is still on its way where there was no row.
    await_copies<0>();
    if constexpr (!WARP) {
        dgamma.store(partial_dgamma + place, begin, stride, cols);
        dbeta.store(partial_dbeta + place, begin, stride, cols);
        return;
    }
    // Where its rows were, each warp leaves its sums; they are added up in the order of warps.
    dgamma.store(own - begin, begin, stride, cols);
    dbeta.store(own - begin + cols, begin, stride, cols);
    __syncthreads();
    for (int c = threadIdx.x * LEN; c < 2 * cols; c += blockDim.x * LEN) {
        T total[LEN] = {};
#pragma unroll
        for (int warp = 0; warp < WARPS_OF_ROWS; ++warp) {
            if (warp >= warps) break;
            T part[LEN];
            Vector<T>::load(part, stages + warp * 4 * cols + c);
#pragma unroll
            for (int j = 0; j < LEN; ++j) total[j] += part[j];
        }
        Vector<T>::store(c < cols ? partial_dgamma + place + c : partial_dbeta + place + c - cols, total);
    }
}

// Adds up the sums of `parts` blocks: a block takes COLUMNS columns, and each half of its warps' lanes every so many-th part of them.
template <typename T>
__device__ __forceinline__ void columns(const T *__restrict__ partial_dgamma, const T *__restrict__ partial_dbeta, T *__restrict__ dgamma,
                                        T *__restrict__ dbeta, int parts, int cols) {
    __shared__ T sums[MAX_WARPS][LANES];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const int c = blockIdx.x * COLUMNS + lane % COLUMNS;
    const int step = warps * (LANES / COLUMNS);
    T dg = 0, db = 0;
    for (int part = warp * (LANES / COLUMNS) + lane / COLUMNS; part < parts; part += UNROLLED * step) {
        // All are asked for before one is waited for.
        T g[UNROLLED], b[UNROLLED];
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i) {
            const bool has = c < cols && part + i * step < parts;
            const long long from = static_cast<long long>(part + i * step) * cols + c;
            g[i] = has ? partial_dgamma[from] : T(0);
            b[i] = has ? partial_dbeta[from] : T(0);
        }
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i) {
            dg += g[i];
            db += b[i];
        }
    }
#pragma unroll
    for (int lanes = LANES / 2; lanes >= COLUMNS; lanes /= 2) {
        dg += __shfl_xor_sync(ALL, dg, lanes);
        db += __shfl_xor_sync(ALL, db, lanes);
    }
    // Of 32 sums half are of dgamma, half of dbeta.
    sums[warp][lane] = lane < COLUMNS ? dg : db;
    __syncthreads();
    if (warp != 0 || c >= cols) return;
    T total = 0;
    for (int other = 0; other < warps; ++other) total += sums[other][lane];
    (lane < COLUMNS ? dgamma : dbeta)[c] = total;
}

#define LAYER_NORM_FORWARD(NAME, T, BOUNDS, ...)                                                                                         \
    extern "C" __global__ void __launch_bounds__ BOUNDS layer_norm_forward_##NAME(                                                       \
        const T *x, const T *gamma, const T *beta, T *y, T *mean, T *rstd, long long rows, int cols, T eps) {                            \
        __VA_ARGS__(x, gamma, beta, y, mean, rstd, rows, cols, eps);                                                                     \
    }

#define LAYER_NORM_BACKWARD(NAME, T, THREADS, ...)                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                                \
    layer_norm_backward_##NAME(const T *x, const T *dy, const T *gamma, const T *mean, const T *rstd, T *dx, T *partial_dgamma,          \
                               T *partial_dbeta, long long rows, int cols) {                                                             \
        __VA_ARGS__(x, dy, gamma, mean, rstd, dx, partial_dgamma, partial_dbeta, rows, cols);                                            \
    }

#define LAYER_NORM_COLUMNS(NAME, T)                                                                                                      \
    extern "C" __global__ void __launch_bounds__(COLUMNS_THREADS)                                                                        \
    layer_norm_backward_columns_##NAME(const T *partial_dgamma, const T *partial_dbeta, T *dgamma, T *dbeta, int parts, int cols) {      \
        columns<T>(partial_dgamma, partial_dbeta, dgamma, dbeta, parts, cols);                                                           \
    }

LAYER_NORM_FORWARD(f32, float, (512), forward<float>)
LAYER_NORM_FORWARD(f32_768, float, (128, 5), forward_held<float, 6, true, true>)
LAYER_NORM_FORWARD(f32_1024, float, (128, 4), forward_held<float, 8, true, true>)
LAYER_NORM_FORWARD(f32_4096, float, (256, 2), forward_held<float, 4, false, true>)
LAYER_NORM_FORWARD(f32_8192, float, (256, 2), forward_held<float, 8, false, false>)
LAYER_NORM_FORWARD(f64, double, (512), forward<double>)
LAYER_NORM_FORWARD(f64_4096, double, (512), forward_held<double, 4, false, true>)
LAYER_NORM_BACKWARD(f32, float, 512, backward<float>)
LAYER_NORM_BACKWARD(f32_768, float, 256, backward_held<float, 6, true>)
LAYER_NORM_BACKWARD(f32_1024, float, 256, backward_held<float, 8, true>)
LAYER_NORM_BACKWARD(f32_4096, float, 512, backward_held<float, 2, false>)
LAYER_NORM_BACKWARD(f32_8192, float, 512, backward_held<float, 4, false>)
LAYER_NORM_BACKWARD(f64, double, 512, backward<double>)
LAYER_NORM_BACKWARD(f64_2048, double, 256, backward_held<double, 4, false>)
LAYER_NORM_COLUMNS(f32, float)
LAYER_NORM_COLUMNS(f64, double)
