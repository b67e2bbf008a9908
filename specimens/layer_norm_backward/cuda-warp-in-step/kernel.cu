// Layer norm with a block for each row. Its sums are halved until a warp is left, which goes on without barriers.

const int THREADS = 256;

// The sum of the block's threads, for all of them. Lanes of one warp need no barrier.
__device__ float block_sum(float value) {
    __shared__ float parts[THREADS];
    const int tid = threadIdx.x;
    __syncthreads();
    parts[tid] = value;
    __syncthreads();
    for (int step = THREADS / 2; step > 32; step /= 2) {
        if (tid < step) parts[tid] += parts[tid + step];
        __syncthreads();
    }
    if (tid < 32) {
        volatile float *v = parts;
        v[tid] += v[tid + 32];
        v[tid] += v[tid + 16];
        v[tid] += v[tid + 8];
        v[tid] += v[tid + 4];
        v[tid] += v[tid + 2];
        v[tid] += v[tid + 1];
    }
    __syncthreads();
    return parts[0];
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

// A block for each of so many shares of the rows.
extern "C" __global__ void backward(const float *dy, const float *x, const float *gamma, const float *mean, const float *rstd,
                                    float *dx, float *shares, int rows, int columns) {
    float *dgamma = shares + (size_t)blockIdx.x * 2 * columns, *dbeta = dgamma + columns;
    for (int c = threadIdx.x; c < columns; c += THREADS) dgamma[c] = dbeta[c] = 0;
    for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const size_t start = row * columns;
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
            dgamma[c] += dy_c * xhat;
            dbeta[c] += dy_c;
        }
    }
}

// A thread for each column.
extern "C" __global__ void reduce(const float *shares, float *dgamma, float *dbeta, int blocks, int columns) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float sum_gamma = 0, sum_beta = 0;
    for (size_t block = 0; block < blocks; block++) {
        sum_gamma += shares[block * 2 * columns + c];
        sum_beta += shares[(block * 2 + 1) * columns + c];
    }
    dgamma[c] = sum_gamma;
    dbeta[c] = sum_beta;
}
