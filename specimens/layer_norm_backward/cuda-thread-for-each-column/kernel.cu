// Layer norm with a block for each row, a thread for each column, and each entry read once.

const unsigned ALL = 0xffffffff;
const int WARPS_MAX = 32;

// The sum of the block's threads, for all of them. Whole warps are launched.
__device__ float block_sum(float value) {
    __shared__ float sums[WARPS_MAX];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(ALL, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) value += sums[warp];
    return value;
}

// A block for each row.
extern "C" __global__ void forward(const float *x, const float *gamma, const float *beta, float *y, float *mean, float *rstd,
                                   int columns, float eps) {
    const size_t row = blockIdx.x, at = row * columns + threadIdx.x;
    const bool mine = threadIdx.x < columns;
    const float value = mine ? x[at] : 0;
    const float m = block_sum(value) / columns;
    const float centred = mine ? value - m : 0;
    const float r = 1 / sqrtf(block_sum(centred * centred) / columns + eps);
    if (mine) y[at] = gamma[threadIdx.x] * (centred * r) + beta[threadIdx.x];
    if (threadIdx.x == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

// A block for each row.
extern "C" __global__ void backward_input(const float *dy, const float *x, const float *gamma, const float *mean,
                                          const float *rstd, float *dx, int columns) {
    const size_t row = blockIdx.x, at = row * columns + threadIdx.x;
    const bool mine = threadIdx.x < columns;
    const float g = mine ? dy[at] * gamma[threadIdx.x] : 0;
    const float xhat = mine ? (x[at] - mean[row]) * rstd[row] : 0;
    const float sum = block_sum(g) / columns;
    const float projection = block_sum(g * xhat) / columns;
    if (mine) dx[at] = rstd[row] * (g - sum - xhat * projection);
}

// A thread for each column.
extern "C" __global__ void backward_parameters(const float *dy, const float *x, const float *mean, const float *rstd,
                                               float *dgamma, float *dbeta, long long rows, int columns) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float gamma_sum = 0, beta_sum = 0;
    for (long long row = 0; row < rows; row++) {
        const float dy_c = dy[row * columns + c];
        gamma_sum += dy_c * ((x[row * columns + c] - mean[row]) * rstd[row]);
        beta_sum += dy_c;
    }
    dgamma[c] = gamma_sum;
    dbeta[c] = beta_sum;
}
