// Layer norm whose statistics and projections are a row's block's, and whose elements are a thread each, in a grid that is laid out as the matrix
// is: columns along x, rows along y. The sums over rows are a thread's for each column.

const unsigned ALL = 0xffffffff;
const int THREADS = 256;
const int WARPS = THREADS / 32;

// The sum of the block's threads, for all of them.
__device__ float block_sum(float value) {
    __shared__ float sums[WARPS];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < WARPS; warp++) value += sums[warp];
    return value;
}

extern "C" __global__ void statistics(const float *x, float *mean, float *rstd, int columns, float eps) {
    const size_t start = size_t(blockIdx.x) * columns;
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) sum += x[start + c];
    const float m = block_sum(sum) / columns;

    float squares = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) squares += (x[start + c] - m) * (x[start + c] - m);
    squares = block_sum(squares);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = 1 / sqrtf(squares / columns + eps);
    }
}

extern "C" __global__ void normalize(const float *x, const float *gamma, const float *beta, const float *mean, const float *rstd, float *y,
                                     int columns) {
    const int c = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (c >= columns) return;
    const size_t at = size_t(row) * columns + c;
    y[at] = gamma[c] * ((x[at] - mean[row]) * rstd[row]) + beta[c];
}

// The means of dy gamma and of dy gamma xhat over a row.
extern "C" __global__ void project(const float *dy, const float *x, const float *gamma, const float *mean, const float *rstd, float *sums,
                                   float *projections, int columns) {
    const size_t row = blockIdx.x, start = row * columns;
    float sum = 0, projection = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        const float g = dy[start + c] * gamma[c];
        sum += g;
        projection += g * ((x[start + c] - mean[row]) * rstd[row]);
    }
    sum = block_sum(sum);
    projection = block_sum(projection);
    if (threadIdx.x == 0) {
        sums[row] = sum / columns;
        projections[row] = projection / columns;
    }
}

extern "C" __global__ void differentiate(const float *dy, const float *x, const float *gamma, const float *mean, const float *rstd,
                                         const float *sums, const float *projections, float *dx, int columns) {
    const int c = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (c >= columns) return;
    const size_t at = size_t(row) * columns + c;
    const float xhat = (x[at] - mean[row]) * rstd[row];
    dx[at] = rstd[row] * (dy[at] * gamma[c] - sums[row] - xhat * projections[row]);
}

extern "C" __global__ void reduce(const float *dy, const float *x, const float *mean, const float *rstd, float *dgamma, float *dbeta, int rows,
                                  int columns) {
    const int c = blockIdx.x * THREADS + threadIdx.x;
    if (c >= columns) return;
    double sum_gamma = 0, sum_beta = 0;
    for (int row = 0; row < rows; row++) {
        const size_t at = size_t(row) * columns + c;
        sum_gamma += dy[at] * ((x[at] - mean[row]) * rstd[row]);
        sum_beta += dy[at];
    }
    dgamma[c] = sum_gamma;
    dbeta[c] = sum_beta;
}
