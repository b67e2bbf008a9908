// Layer norm with a block for each row. Backward adds each row to dgamma and dbeta with the atomic operations of a block.

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

// A block for each row.
extern "C" __global__ void forward(const float *x, const float *gamma, const float *beta, float *y, float *mean, float *rstd,
                                   int columns, float eps) {
    const size_t row = blockIdx.x, start = row * columns;
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) sum += x[start + c];
    const float m = block_sum(sum) / columns;

    float squares = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) squares += (x[start + c] - m) * (x[start + c] - m);
    const float r = 1 / sqrtf(block_sum(squares) / columns + eps);

    for (int c = threadIdx.x; c < columns; c += THREADS) y[start + c] = gamma[c] * ((x[start + c] - m) * r) + beta[c];
    if (threadIdx.x == 0) {
        mean[row] = m;
        rstd[row] = r;
    }
}

// A thread for each column.
extern "C" __global__ void clear(float *dgamma, float *dbeta, int columns) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < columns) dgamma[c] = dbeta[c] = 0;
}

// A block for each row.
extern "C" __global__ void backward(const float *dy, const float *x, const float *gamma, const float *mean, const float *rstd,
                                    float *dx, float *dgamma, float *dbeta, int columns) {
    const size_t row = blockIdx.x, start = row * columns;
    const float m = mean[row], r = rstd[row];
    float sum = 0, projection = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        const float g = dy[start + c] * gamma[c];
        sum += g;
        projection += g * ((x[start + c] - m) * r);
    }
    sum = block_sum(sum) / columns;
    projection = block_sum(projection) / columns;
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        const float dy_c = dy[start + c], xhat = (x[start + c] - m) * r;
        dx[start + c] = r * (dy_c * gamma[c] - sum - xhat * projection);
        atomicAdd_block(&dgamma[c], dy_c * xhat);
        atomicAdd_block(&dbeta[c], dy_c);
    }
}
